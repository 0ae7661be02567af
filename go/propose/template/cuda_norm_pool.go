package template

// cudaPools and cudaNorms are the families of pooling, normalisation and softmax for cuda.
var (
	cudaPools []Family
	cudaNorms []Family
)
