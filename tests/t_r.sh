#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# R under preload with its products on the device, against products by base loops.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
need Rscript
[ -e "$preload" ] || bail "$preload is missing"
scratch
trace_file=$tap_dir/trace

cat >"$tap_dir/t.R" <<'EOF'
set.seed(1)
n <- 0
check <- function(what, good) {
    n <<- n + 1
    cat(if (isTRUE(good)) "ok" else "not ok", "-", what, "\n")
}
near <- function(a, b) max(Mod(a - b)) <= 1e-10 * max(1, max(Mod(b)))
loops <- function(a, b) {
    c <- matrix(a[1] * 0, nrow(a), ncol(b))
    for (l in seq_len(ncol(a))) c <- c + outer(a[, l], b[l, ])
    c
}
a <- matrix(rnorm(37 * 53), 37); b <- matrix(rnorm(53 * 41), 53)
check("product", near(a %*% b, loops(a, b)))
check("crossprod of two", near(crossprod(t(a), b), loops(a, b)))
check("tcrossprod of two", near(tcrossprod(a, t(b)), loops(a, b)))
check("crossprod", near(crossprod(a), loops(t(a), a)))
z <- a + 1i * matrix(rnorm(37 * 53), 37); w <- b + 1i * matrix(rnorm(53 * 41), 53)
check("complex product", near(z %*% w, loops(z, w)))
check("complex crossprod", near(crossprod(t(z), w), loops(z, w)))
a[3, 5] <- NA
check("NA propagates", all(is.na((a %*% b)[3, ])) && !anyNA((a %*% b)[-3, ]))
s <- matrix(rnorm(90 * 90), 90); y <- rnorm(90)
check("solve", near(loops(s, matrix(solve(s, y))), matrix(y)))
d <- svd(s)
check("svd", near(loops(d$u, d$d * t(d$v)), s))
p <- loops(t(s), s)
e <- eigen(p, symmetric = TRUE)
check("eigen", near(loops(e$vectors, e$values * t(e$vectors)), p))
q <- qr(s)
check("qr", near(loops(qr.Q(q), qr.R(q)), s))
check("cholesky", near(loops(t(chol(p)), chol(p)), p))
check("an error from BLAS's caller is an R error, and R goes on",
      inherits(try(a %*% a, silent = TRUE), "try-error") && near(s %*% solve(s), diag(90)))
EOF
gpu_forced Rscript --vanilla "$tap_dir/t.R" >"$tap_dir/out" 2>"$tap_dir/err"
is 0 $? 'R ends well' || diag "$(tail -n 5 "$tap_dir/err")"
while read -r line; do
    [ "${line#ok}" != "$line" ]
    ok $? "${line#*- }"
done < <(grep -E '^(not )?ok - ' "$tap_dir/out")
is 13 "$(grep -c -E '^(not )?ok - ' "$tap_dir/out")" 'all checks ran'
is '' "$(grep gemmblas "$tap_dir/out" "$tap_dir/err")" 'nothing of ours on stdout or stderr'
for routine in dgemm zgemm; do
    [ "$(traced "name=$routine .*route=gpu")" -gt 0 ]
    ok $? "$routine ran on the device"
done
finish
