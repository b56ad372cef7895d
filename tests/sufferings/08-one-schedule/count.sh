for target in x86_avx512 x86_avx2 generic; do
  for payload in payload f64; do
    tcpx emit $payload.tcp -s schedule.tcps --target $target -o c >/dev/null
    echo $target, $payload.tcp: $(grep -o -E '_mm[0-9]*_fmadd_p[sd]|vector_size\([0-9]*\)' c/product.c | sort | uniq -c)
  done
done
