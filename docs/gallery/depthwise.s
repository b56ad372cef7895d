# GCC 12.2.0
.L5:
	vmovups	(%rdx), %zmm0
	vfmadd231ps	(%rax), %zmm0, %zmm2
	addq	$1728, %rdx
	addq	$33408, %rax
	vfmadd231ps	-25920(%rax), %zmm0, %zmm1
	vfmadd231ps	-32832(%rax), %zmm0, %zmm3
	vfmadd231ps	-32256(%rax), %zmm0, %zmm4
	vfmadd231ps	-31680(%rax), %zmm0, %zmm5
	vfmadd231ps	-31104(%rax), %zmm0, %zmm6
	vfmadd231ps	-30528(%rax), %zmm0, %zmm7
	vfmadd231ps	-29952(%rax), %zmm0, %zmm8
	vfmadd231ps	-29376(%rax), %zmm0, %zmm9
	vfmadd231ps	-28800(%rax), %zmm0, %zmm10
	vfmadd231ps	-28224(%rax), %zmm0, %zmm11
	vfmadd231ps	-27648(%rax), %zmm0, %zmm12
	vfmadd231ps	-27072(%rax), %zmm0, %zmm13
	vfmadd231ps	-26496(%rax), %zmm0, %zmm14
	vmovups	-1152(%rdx), %zmm0
	vfmadd231ps	-32832(%rax), %zmm0, %zmm2
	vfmadd231ps	-31680(%rax), %zmm0, %zmm4
	vfmadd231ps	-31104(%rax), %zmm0, %zmm5
	vfmadd231ps	-30528(%rax), %zmm0, %zmm6
	vfmadd231ps	-29952(%rax), %zmm0, %zmm7
	vfmadd231ps	-29376(%rax), %zmm0, %zmm8
	vfmadd231ps	-28800(%rax), %zmm0, %zmm9
	vfmadd231ps	-28224(%rax), %zmm0, %zmm10
	vfmadd231ps	-27648(%rax), %zmm0, %zmm11
	vfmadd231ps	-27072(%rax), %zmm0, %zmm12
	vfmadd231ps	-26496(%rax), %zmm0, %zmm13
	vfmadd231ps	-25920(%rax), %zmm0, %zmm14
	vfmadd231ps	-32256(%rax), %zmm0, %zmm3
	vfmadd132ps	-25344(%rax), %zmm1, %zmm0
	vmovups	-576(%rdx), %zmm1
	vfmadd231ps	-32256(%rax), %zmm1, %zmm2
	vfmadd231ps	-31680(%rax), %zmm1, %zmm3
	vfmadd231ps	-31104(%rax), %zmm1, %zmm4
	vfmadd231ps	-30528(%rax), %zmm1, %zmm5
	vfmadd231ps	-29952(%rax), %zmm1, %zmm6
	vfmadd231ps	-29376(%rax), %zmm1, %zmm7
	vfmadd231ps	-28800(%rax), %zmm1, %zmm8
	vfmadd231ps	-28224(%rax), %zmm1, %zmm9
	vfmadd231ps	-27648(%rax), %zmm1, %zmm10
	vfmadd231ps	-27072(%rax), %zmm1, %zmm11
	vfmadd231ps	-26496(%rax), %zmm1, %zmm12
	vfmadd231ps	-25920(%rax), %zmm1, %zmm13
	vfmadd231ps	-25344(%rax), %zmm1, %zmm14
	vfmadd132ps	-24768(%rax), %zmm0, %zmm1
	cmpq	%rdx, %rdi
	jne	.L5
