# GCC 12.2.0
.L5:
	vmovups	(%r15), %zmm1
	vmovups	64(%r15), %zmm0
	addq	$4, %rsi
	addq	$256, %r15
	vbroadcastss	-4(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm3
	vfmadd231ps	%zmm0, %zmm2, %zmm4
	vbroadcastss	252(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm5
	vfmadd231ps	%zmm0, %zmm2, %zmm6
	vbroadcastss	508(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm7
	vfmadd231ps	%zmm0, %zmm2, %zmm8
	vbroadcastss	764(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm9
	vfmadd231ps	%zmm0, %zmm2, %zmm10
	vbroadcastss	1020(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm11
	vfmadd231ps	%zmm0, %zmm2, %zmm12
	vbroadcastss	1276(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm13
	vfmadd231ps	%zmm0, %zmm2, %zmm14
	vbroadcastss	1532(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm15
	vfmadd231ps	%zmm0, %zmm2, %zmm16
	vbroadcastss	1788(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm17
	vfmadd231ps	%zmm0, %zmm2, %zmm18
	vbroadcastss	2044(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm19
	vfmadd231ps	%zmm0, %zmm2, %zmm20
	vbroadcastss	2300(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm21
	vfmadd231ps	%zmm0, %zmm2, %zmm22
	vbroadcastss	2556(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm23
	vfmadd231ps	%zmm0, %zmm2, %zmm24
	vbroadcastss	2812(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm25
	vfmadd231ps	%zmm0, %zmm2, %zmm26
	vbroadcastss	3068(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm27
	vfmadd231ps	%zmm0, %zmm2, %zmm28
	vbroadcastss	3324(%rsi), %zmm2
	vfmadd231ps	%zmm1, %zmm2, %zmm29
	vfmadd231ps	%zmm0, %zmm2, %zmm30
	cmpq	%rsi, %r9
	jne	.L5
