#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Octave under preload with its products on the device, against products by loops.
# shellcheck source=tests/testlib.sh
. "$(dirname "$0")/testlib.sh"
need octave-cli
[ -e "$preload" ] || bail "$preload is missing"
scratch
trace_file=$tap_dir/trace

cat >"$tap_dir/t.m" <<'EOF'
1;
function c = loops (a, b)
  c = zeros (rows (a), columns (b));
  for l = 1:columns (a)
    c += bsxfun (@times, a(:,l), b(l,:));
  end
end
function check (what, got, wanted, tol)
  good = max (abs (got(:) - wanted(:))) <= tol * max (1, max (abs (wanted(:))));
  if (good) printf ("ok - %s\n", what); else printf ("not ok - %s\n", what); end
end
randn ("seed", 1);
a = randn (37, 53); b = randn (53, 41);
check ("product", a * b, loops (a, b), 1e-12);
check ("transposed left", a' * (2 * a), loops (a', 2 * a), 1e-12);
check ("transposed right", a * (3 * a).', loops (a, 3 * a.'), 1e-12);
check ("single", single (a) * single (b), loops (a, b), 1e-5);
z = a + 1i * randn (37, 53); w = b + 1i * randn (53, 41);
check ("complex", z * w, loops (z, w), 1e-12);
check ("conjugated", z' * z, loops (z', z), 1e-12);
check ("single complex", single (z) * single (w), loops (z, w), 1e-5);
s = randn (90); y = randn (90, 7);
check ("solve", loops (s, s \ y), y, 1e-9);
[u, d, v] = svd (s);
check ("svd", loops (loops (u, d), v'), s, 1e-10);
[q, r] = qr (s);
check ("qr", loops (q, r), s, 1e-10);
p = loops (s', s);
[v, e] = eig (p);
check ("eig", loops (loops (v, e), v'), p, 1e-10);
check ("inv", loops (s, inv (s)), eye (90), 1e-8);
EOF
gpu_forced octave-cli --norc --quiet --no-window-system "$tap_dir/t.m" \
    >"$tap_dir/out" 2>"$tap_dir/err"
is 0 $? 'Octave ends well' || diag "$(tail -n 5 "$tap_dir/err")"
while read -r line; do
    [ "${line#ok}" != "$line" ]
    ok $? "${line#*- }"
done < <(grep -E '^(not )?ok - ' "$tap_dir/out")
is 12 "$(grep -c -E '^(not )?ok - ' "$tap_dir/out")" 'all checks ran'
is '' "$(grep gemmblas "$tap_dir/out" "$tap_dir/err")" 'nothing of ours on stdout or stderr'
for routine in sgemm dgemm cgemm zgemm; do
    [ "$(traced "name=$routine .*route=gpu")" -gt 0 ]
    ok $? "$routine ran on the device"
done
finish
