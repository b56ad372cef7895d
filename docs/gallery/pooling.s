# GCC 12.2.0
.L7:
	vmovaps	%zmm7, %zmm3
	vmovaps	%zmm6, %zmm2
	vmovaps	%zmm5, %zmm1
	vmovaps	%zmm4, %zmm0
.L5:
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	(%rax), %zmm3, %zmm3{%k1}
	vmovups	256(%rax), %zmm7
	addq	$512, %rax
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmovups	-128(%rax), %zmm5
	vmaxps	-448(%rax), %zmm2, %zmm2{%k1}
	addq	$256, %rdx
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmovups	-64(%rax), %zmm4
	vmaxps	-384(%rax), %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmaxps	-320(%rax), %zmm0, %zmm0{%k1}
	vmovups	-192(%rax), %zmm6
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	%zmm7, %zmm3, %zmm3{%k1}
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmaxps	%zmm6, %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmaxps	%zmm5, %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmaxps	%zmm4, %zmm0, %zmm0{%k1}
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	%zmm12, %zmm3, %zmm3{%k1}
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmovups	28672(%rax), %zmm12
	vmaxps	%zmm13, %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmovups	28736(%rax), %zmm13
	vmaxps	%zmm14, %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmovups	28800(%rax), %zmm14
	vmaxps	%zmm15, %zmm0, %zmm0{%k1}
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	28416(%rax), %zmm3, %zmm3{%k1}
	vmovups	28864(%rax), %zmm15
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmaxps	28480(%rax), %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmaxps	28544(%rax), %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmaxps	28608(%rax), %zmm0, %zmm0{%k1}
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	%zmm12, %zmm3, %zmm3{%k1}
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmaxps	%zmm13, %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmaxps	%zmm14, %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmaxps	%zmm15, %zmm0, %zmm0{%k1}
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	%zmm11, %zmm3, %zmm3{%k1}
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmovups	57600(%rax), %zmm11
	vmaxps	%zmm10, %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmovups	57664(%rax), %zmm10
	vmaxps	%zmm9, %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmovups	57728(%rax), %zmm9
	vmaxps	%zmm8, %zmm0, %zmm0{%k1}
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	57344(%rax), %zmm3, %zmm3{%k1}
	vmovups	57792(%rax), %zmm8
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmaxps	57408(%rax), %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmaxps	57472(%rax), %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmaxps	57536(%rax), %zmm0, %zmm0{%k1}
	vcmpps	$7, %zmm3, %zmm3, %k1
	vmaxps	%zmm11, %zmm3, %zmm3{%k1}
	vcmpps	$7, %zmm2, %zmm2, %k1
	vmovups	%zmm3, -256(%rdx)
	vmaxps	%zmm10, %zmm2, %zmm2{%k1}
	vcmpps	$7, %zmm1, %zmm1, %k1
	vmovups	%zmm2, -192(%rdx)
	vmaxps	%zmm9, %zmm1, %zmm1{%k1}
	vcmpps	$7, %zmm0, %zmm0, %k1
	vmaxps	%zmm8, %zmm0, %zmm0{%k1}
	vmovups	%zmm1, -128(%rdx)
	vmovups	%zmm0, -64(%rdx)
	cmpq	%rax, %rcx
	jne	.L7
