# GCC 12.2.0
.L5:
	vmovups	(%r8), %ymm0
	addq	$4, %r14
	addq	$32, %r8
	vfmadd231ps	-4(%r14){1to8}, %ymm0, %ymm1
	vfmadd231ps	1020(%r14){1to8}, %ymm0, %ymm2
	vfmadd231ps	2044(%r14){1to8}, %ymm0, %ymm3
	vfmadd231ps	3068(%r14){1to8}, %ymm0, %ymm4
	vfmadd231ps	4092(%r14){1to8}, %ymm0, %ymm5
	vfmadd231ps	5116(%r14){1to8}, %ymm0, %ymm6
	vfmadd231ps	6140(%r14){1to8}, %ymm0, %ymm7
	vfmadd231ps	7164(%r14){1to8}, %ymm0, %ymm8
	vfmadd231ps	8188(%r14){1to8}, %ymm0, %ymm9
	vfmadd231ps	9212(%r14){1to8}, %ymm0, %ymm10
	vfmadd231ps	10236(%r14){1to8}, %ymm0, %ymm11
	vfmadd231ps	11260(%r14){1to8}, %ymm0, %ymm12
	vfmadd231ps	12284(%r14){1to8}, %ymm0, %ymm13
	vfmadd231ps	13308(%r14){1to8}, %ymm0, %ymm14
	vfmadd231ps	16380(%r14){1to8}, %ymm0, %ymm15
	vfmadd231ps	17404(%r14){1to8}, %ymm0, %ymm16
	vfmadd231ps	18428(%r14){1to8}, %ymm0, %ymm17
	vfmadd231ps	19452(%r14){1to8}, %ymm0, %ymm18
	vfmadd231ps	20476(%r14){1to8}, %ymm0, %ymm19
	vfmadd231ps	21500(%r14){1to8}, %ymm0, %ymm20
	vfmadd231ps	22524(%r14){1to8}, %ymm0, %ymm21
	vfmadd231ps	23548(%r14){1to8}, %ymm0, %ymm22
	vfmadd231ps	24572(%r14){1to8}, %ymm0, %ymm23
	vfmadd231ps	25596(%r14){1to8}, %ymm0, %ymm24
	vfmadd231ps	26620(%r14){1to8}, %ymm0, %ymm25
	vfmadd231ps	27644(%r14){1to8}, %ymm0, %ymm26
	vfmadd231ps	28668(%r14){1to8}, %ymm0, %ymm27
	vfmadd231ps	29692(%r14){1to8}, %ymm0, %ymm28
	cmpq	%r14, %r15
	jne	.L5
