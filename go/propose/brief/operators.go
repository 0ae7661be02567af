package brief

// operators.go owns what each hooked operator does, in words. A test compares the table with torchext/ops.def.

import "strings"

// Words say what an operator does.
type Words struct {
	Words   string
	Formula string
}

// Operator gives the words of an overload: `aten::add_.Tensor` is an `add`. They are empty for one that the table does not know.
func Operator(overload string) Words {
	name, _, _ := strings.Cut(strings.TrimPrefix(overload, "aten::"), ".")
	if words, ok := operators[name]; ok {
		return words
	}
	name = strings.TrimSuffix(name, "_")
	if words, ok := operators[name]; ok {
		return words
	}
	return operators[strings.TrimSuffix(name, "_out")]
}

var (
	convolution = Words{"convolution: each output element sums the products of a window of the input with a filter; padding counts as zeros",
		"out[n, o, p] = bias[o] + sum over c, k of self[n, c, p * stride - padding + k * dilation] * weight[o, c, k]  (p, k over the spatial dims; channels c of o's group)"}
	transposed = Words{"transposed convolution: each input element is spread over a window of the output",
		"out[n, o, p * stride - padding + k * dilation] += self[n, c, p] * weight[c, o, k], then + bias[o]"}
	depthwise = Words{"depthwise convolution: each channel has its own filter",
		"out[n, c, p] = bias[c] + sum over k of self[n, c, p * stride - padding + k * dilation] * weight[c, 0, k]"}
	attention = Words{"scaled dot-product attention, softmax over the keys; `scale` is 1 / sqrt(head size) where none; causal: query i sees keys up to i",
		"out0[b, h, i, :] = sum over j of softmax_j(scale * dot(query[b, h, i, :], key[b, h, j, :]) + attn_mask[b, h, i, j]) * value[b, h, j, :]; log-sum-exp of the scores is an output, too"}
	batchNorm = Words{"batch norm for inference, by running statistics of each channel",
		"out0[n, c, ...] = (input[n, c, ...] - running_mean[c]) / sqrt(running_var[c] + eps) * weight[c] + bias[c]; weight is 1 and bias 0 where none"}
	adaptive = Words{"adaptive average pooling: output p averages inputs floor(p * in / out) up to ceil((p + 1) * in / out)",
		"out[n, c, p, q] = mean of self[n, c, window of p, window of q]"}
)

var operators = map[string]Words{
	"relu":        {"rectifier; NaN stays NaN", "out = max(self, 0)"},
	"clamp_min":   {"lower bound; NaN stays NaN", "out = max(self, min)"},
	"clamp":       {"bounds from below and above, either may be none; NaN stays NaN", "out = min(max(self, min), max)"},
	"hardtanh":    {"bounds from below and above; NaN stays NaN", "out = min(max(self, min_val), max_val)"},
	"silu":        {"swish", "out = self / (1 + exp(-self))"},
	"gelu":        {"Gaussian error unit; `approximate` chooses erf (`none`) or `tanh`", "out = self / 2 * (1 + erf(self / sqrt(2))), or self / 2 * (1 + tanh(sqrt(2 / pi) * (self + 0.044715 * self^3)))"},
	"sigmoid":     {"logistic function", "out = 1 / (1 + exp(-self))"},
	"tanh":        {"hyperbolic tangent", "out = tanh(self)"},
	"exp":         {"exponential", "out = exp(self)"},
	"neg":         {"negation", "out = -self"},
	"rsqrt":       {"reciprocal square root", "out = 1 / sqrt(self)"},
	"pow":         {"power with a scalar exponent", "out = self ^ exponent"},
	"add":         {"sum, shapes broadcast", "out = self + alpha * other"},
	"sub":         {"difference, shapes broadcast", "out = self - alpha * other"},
	"mul":         {"product, shapes broadcast", "out = self * other"},
	"div":         {"quotient, shapes broadcast", "out = self / other"},
	"where":       {"choice by a mask, shapes broadcast", "out = condition ? self : other"},
	"masked_fill": {"a value where a mask holds, shapes broadcast", "out = mask ? value : self"},
	"copy":        {"copy with conversion of type; src broadcasts to self's shape, layouts may differ", "out = src"},
	"cat":         {"concatenation along `dim`; empty one-dimensional tensors are skipped", "out = tensors_0, tensors_1, ... one behind the other along dim"},

	"_softmax":     {"softmax along `dim`; the maximum is taken off first, a row of -inf gives NaN", "out[.., j] = exp(self[.., j] - max) / sum over k of exp(self[.., k] - max)"},
	"_log_softmax": {"logarithm of the softmax along `dim`", "out[.., j] = self[.., j] - max - log(sum over k of exp(self[.., k] - max))"},
	"native_layer_norm": {"layer norm over the last dims (`normalized_shape`); outputs: result, mean and reciprocal deviation of each row (population variance)",
		"out1 = mean(input), out2 = 1 / sqrt(var(input) + eps), out0 = (input - out1) * out2 * weight + bias"},
	"group_norm": {"group norm: samples, channels in `num_groups` groups; the result alone, without statistics",
		"mean and var over a group, out = (input - mean) / sqrt(var + eps) * weight[c] + bias[c]"},
	"native_group_norm": {"group norm: N samples, C channels in `group` groups of C / group channels by HxW; outputs: result, mean and reciprocal deviation of each sample and group",
		"out1 = mean over a group, out2 = 1 / sqrt(var + eps), out0 = (input - out1) * out2 * weight[c] + bias[c]"},
	"native_batch_norm":                    batchNorm,
	"cudnn_batch_norm":                     batchNorm,
	"_native_batch_norm_legit":             batchNorm,
	"_native_batch_norm_legit_no_training": batchNorm,
	"_fused_rms_norm":                      {"root-mean-square norm over the last dims (`normalized_shape`); outputs: result and reciprocal root of each row", "out1 = 1 / sqrt(mean(input^2) + eps), out0 = input * out1 * weight"},
	"mean":                                 {"mean along `dim` (all dims where none)", "out = sum(self) / count"},
	"sum":                                  {"sum along `dim` (all dims where none)", "out = sum(self)"},
	"amax":                                 {"largest value along `dim`; NaN wins", "out = max(self)"},
	"cumsum":                               {"running sum along `dim`", "out[.., j] = sum over k <= j of self[.., k]"},
	"topk":                                 {"the k largest elements along `dim` (smallest where not `largest`), best first where `sorted`, and their places; NaN is the largest; any of equal elements may be taken", "out0[.., j] = the j-th best of self, out1[.., j] = its index along dim"},
	"max_pool2d":                           {"largest value of each window (NaN wins); padding counts as -inf", "out[n, c, p, q] = max of self[n, c, window]"},
	"max_pool2d_with_indices":              {"largest value of each window and its index in the plane (first one wins, NaN wins); padding counts as -inf", "out0[n, c, p, q] = max of self[n, c, window], out1 = row * width + column of it"},
	"avg_pool2d":                           {"mean of each window; `count_include_pad` counts padding, `divisor_override` replaces the count", "out[n, c, p, q] = sum of self[n, c, window] / divisor"},
	"_adaptive_avg_pool2d":                 adaptive,
	"adaptive_avg_pool2d":                  adaptive,
	"upsample_nearest2d":                   {"nearest neighbour resize", "out[n, c, p, q] = self[n, c, floor(p * in_h / out_h), floor(q * in_w / out_w)], by the scales where they are given"},
	"upsample_bilinear2d":                  {"bilinear resize; `align_corners` chooses how positions are mapped", "out[n, c, p, q] = weighted sum of the four neighbours of position (p, q) in self"},

	"mm":    {"matrix product", "out[i, j] = sum over k of self[i, k] * mat2[k, j]"},
	"addmm": {"matrix product plus a matrix or a broadcast row (a linear layer with bias)", "out[i, j] = beta * self[i, j] + alpha * sum over k of mat1[i, k] * mat2[k, j]"},
	"bmm":   {"batch of matrix products", "out[b, i, j] = sum over k of self[b, i, k] * mat2[b, k, j]"},

	"cudnn_convolution":           convolution,
	"cudnn_convolution_relu":      {"convolution, then rectifier", convolution.Formula + ", then max(out, 0)"},
	"cudnn_convolution_add_relu":  {"convolution plus alpha * z, then rectifier", convolution.Formula + " + alpha * z, then max(out, 0)"},
	"cudnn_convolution_transpose": transposed,
	"mkldnn_convolution":          convolution,
	"_conv_depthwise2d":           depthwise,
	"conv_depthwise3d":            depthwise,
	"_slow_conv2d_forward":        convolution,
	"slow_conv3d_forward":         convolution,
	"slow_conv_dilated2d":         convolution,
	"slow_conv_dilated3d":         convolution,
	"slow_conv_transpose2d":       transposed,
	"slow_conv_transpose3d":       transposed,
	"_nnpack_spatial_convolution": convolution,

	"_scaled_dot_product_flash_attention":         attention,
	"_scaled_dot_product_flash_attention_for_cpu": attention,
	"_scaled_dot_product_efficient_attention":     attention,
	"_scaled_dot_product_cudnn_attention":         attention,
}
