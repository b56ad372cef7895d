# GCC 12.2.0
.L5:
	vmovups	(%rdi), %zmm1
	vmovups	64(%rdi), %zmm0
	addq	$4, %rax
	addq	$1024, %rdi
	vbroadcastss	-4(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm3
	vfmadd231ps	%zmm0, %zmm2, %zmm4
	vbroadcastss	252(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm5
	vfmadd231ps	%zmm0, %zmm2, %zmm6
	vbroadcastss	508(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm7
	vfmadd231ps	%zmm0, %zmm2, %zmm8
	vbroadcastss	764(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm9
	vfmadd231ps	%zmm0, %zmm2, %zmm10
	vbroadcastss	1020(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm11
	vfmadd231ps	%zmm0, %zmm2, %zmm12
	vbroadcastss	1276(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm13
	vfmadd231ps	%zmm0, %zmm2, %zmm14
	vbroadcastss	1532(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm15
	vfmadd231ps	%zmm0, %zmm2, %zmm16
	vbroadcastss	1788(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm17
	vfmadd231ps	%zmm0, %zmm2, %zmm18
	vbroadcastss	2044(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm19
	vfmadd231ps	%zmm0, %zmm2, %zmm20
	vbroadcastss	2300(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm21
	vfmadd231ps	%zmm0, %zmm2, %zmm22
	vbroadcastss	2556(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm23
	vfmadd231ps	%zmm0, %zmm2, %zmm24
	vbroadcastss	2812(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm25
	vfmadd231ps	%zmm0, %zmm2, %zmm26
	vbroadcastss	3068(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm27
	vfmadd231ps	%zmm0, %zmm2, %zmm28
	vbroadcastss	3324(%rax), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm29
	vfmadd231ps	%zmm0, %zmm2, %zmm30
	cmpq	%rax, %r8
	jne	.L5
