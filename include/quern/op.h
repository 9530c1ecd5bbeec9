/* Quern: operators.  Part of quern.h.
 *
 * Life of an operator:
 *
 *     qn_conv2d_params p;   qn_conv2d_params_init(&p);      writes struct_size and defaults
 *     qn_conv2d_create(&p, &weights, bias, cache, &op);     checks everything
 *     qn_operator_plan(op, ins, n_in, outs, n_out, &options, &plan);   fixes shapes, algorithm, tasks
 *     qn_plan_run(plan, inputs, outputs, workspace, size, parallel);   allocates nothing, takes no lock
 *
 * One plan may run in several threads at once, each with a workspace and outputs of its own. */
#ifndef QUERN_OP_H
#define QUERN_OP_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup op Operators
 *  Tensors are row-major; images are N, H, W, C.  Any batch size, also 0.
 *
 *  A dimension that parameters and weights do not fix may be 0; the tensor is then empty. A plan whose output is empty
 *  does nothing. It needs no workspace, and has no algorithm and no kernel. Addresses of empty tensors do not matter, and
 *  may be NULL. A concat ignores empty inputs; a pad of an empty input returns a tensor of padding values. Other operators
 *  compute no elements from an empty input: planning the average of an image without pixels, for example, returns
 *  QN_INVALID_ARGUMENT.
 *
 *  Arrays and buffers that a call is given must be aligned to their elements; if one is not, the call returns
 *  QN_INVALID_ARGUMENT. It returns the same if a buffer that it writes, an output or a workspace, overlaps another
 *  buffer of the call, unless the operator's description allows it. Two buffers overlap if they share elements; gaps
 *  between elements do not count. So outputs and inputs may be slices of one buffer that have no element in common, for
 *  example different channels of an image.
 *  @{ */

/** What to compute, with its weights and constants, for inputs of any size. Immutable. */
typedef struct qn_operator qn_operator;
/** An operator made ready for inputs of one size. Immutable; keeps its operator alive. */
typedef struct qn_plan qn_plan;
/** Packed weights, see qn_weights_cache_create(). */
typedef struct qn_weights_cache qn_weights_cache;

/** Height and width, or any pair in that order. */
typedef struct qn_hw {
  size_t h; /**< Height. */
  size_t w; /**< Width. */
} qn_hw;

/** Zeros (for max pooling: nothing) added around an image, in pixels. */
typedef struct qn_padding {
  size_t top;    /**< Rows above the image. */
  size_t left;   /**< Columns left of it. */
  size_t bottom; /**< Rows below it. */
  size_t right;  /**< Columns right of it. */
} qn_padding;

/* ---- weights ---------------------------------------------------------------------------------- */

/** How the elements of weights are ordered. O: output channel, I: input channel of the group. */
typedef enum qn_weights_layout {
  QN_WEIGHTS_OHWI =
      0, /**< Convolution: O, kernel height, kernel width, I. Fully connected: O, I. Depthwise: O, kh, kw. */
  QN_WEIGHTS_OIHW = 1, /**< Convolution as Caffe and ONNX store it: O, I, kh, kw. */
  QN_WEIGHTS_HWIO = 2  /**< kh, kw, I, O. Fully connected: I, O. Depthwise: kh, kw, O. */
} qn_weights_layout;

/** How weights are given. The library does not read members that only other encodings name. */
typedef enum qn_weights_encoding {
  QN_WEIGHTS_DENSE = 0,  /**< `data`: every element, in the order of `layout`. */
  QN_WEIGHTS_SPARSE = 1, /**< `data`, `block`, `starts`, `positions`, `stored`: the nonzeros. */
  QN_WEIGHTS_DECODED = 2 /**< `decode` writes the rows of output channels whenever a plan needs them. */
} qn_weights_encoding;

/** What the weights of an operator hold, for who knows it: the library then reads them to pack them, and not before.
 *  Wrong numbers make an operator slow; a `largest_sum` that is too small, or wrong extremes, make its results wrong. */
typedef struct qn_weights_summary {
  /** How many blocks of weights hold anything but zeros. blocks[0]: blocks of 1, 2, 4, 8 and 16 neighbouring
   *  output channels of a group at one position of their rows; blocks[1], of integers: at those of 4 successive input
   *  channels of a tap. The last block of a group, and of a tap, may be smaller. All 0: there are hardly any zeros. */
  size_t blocks[2][5];
  int8_t least;         /**< Integers: the smallest element. */
  int8_t most;          /**< Integers: the largest element. */
  uint64_t largest_sum; /**< Integers: the largest sum of the absolute values of an output channel's elements. */
} qn_weights_summary;

/** Weights of a convolution or fully-connected operator.
 *
 *  Everything that the struct points to must stay valid and unchanged until the operator and all its plans are
 *  released. QN_WEIGHTS_SPARSE and QN_WEIGHTS_DECODED allow only the layout QN_WEIGHTS_OHWI: the row of an output
 *  channel has `depth` = kernel height x kernel width x I elements in that order.
 *
 *  QN_WEIGHTS_SPARSE stores compressed sparse rows. Each `block` successive output channels of a group share one row,
 *  the block row. A group has as many block rows as its output channels need; the last block row may have places for
 *  channels that do not exist. Block rows are numbered through all groups, one group after the other. Block row r has
 *  nonzeros at positions[starts[r]], positions[starts[r] + 1] .. positions[starts[r + 1] - 1], ascending and less than
 *  depth; element j of channel c of the block is data[j * block + c]. Values of channels that do not exist are ignored.
 *  A value may be 0.
 *
 *  Integer weights are quantized: real = scale * (element - zero point). There is one scale for all weights, one for
 *  each output channel, or one for each run of `block_length` elements in an output channel's row. This struct also
 *  gives the type of the bias. A bias of QN_S32 is added to sums of integer products, so its scale is the scale of the
 *  input times the scale of the (channel's) weights, and its zero point is 0.
 *
 *  This version computes with QN_F32, and with QN_S8 if the weights are dense or decoded, their zero points are 0, they
 *  have no `block_length`, and the bias is of QN_S32. It returns QN_UNSUPPORTED for all else. A sum of
 *  products and bias that exceeds 32 bits wraps around, as in ONNX and TensorFlow Lite.
 *  Operators of QN_F32 also take dense or decoded weights of QN_S8 in QN_WEIGHTS_OHWI, with a bias of QN_F32. They
 *  compute with the real numbers that these stand for, and need a quarter of the memory for the weights as they are
 *  given.
 *  For one row of input (fully connected, and 1x1 convolutions) they pack the bytes themselves, unless there is a
 *  `block_length`, or QN_ALGORITHM_SPARSE is faster: these panels take a quarter of the memory that floats would take,
 *  and a run reads a quarter of the bytes. An operator that is planned for one row and for several keeps both packings.
 *  The result of one row is the sum of the products of input and bytes, times the scale, plus the bias; its last digits
 *  differ from those of a row among several.
 *  If `block_length` is a multiple of 32 and all weights lie in -8 .. 7, the same operators pack them with 4 bits each,
 *  for any number of rows, unless QN_ALGORITHM_SPARSE is faster. The products of each block of 32 successive elements
 *  are summed up on their own; then each sum, times its scale, is added to the bias.
 *  With `quantize_input` (qn_fully_connected_params) operators multiply bytes by bytes. */
typedef struct qn_weights {
  size_t struct_size;       /**< Written by the init function. */
  qn_type type;             /**< Of the elements. */
  qn_weights_layout layout; /**< Order of the elements. */
  const void* data;         /**< The elements. Sparse: the stored elements, `block` for each position. */
  /** The thread that plans calls this while it packs dense weights, when it will not soon need the `bytes` bytes from
   *  `read` on: the owner of a mapped file may then release their pages. Another packing may read them again. NULL: no
   *  call. */
  void (*was_read)(void* context, const void* read, size_t bytes);
  void* context;                /**< First argument of was_read and decode. */
  qn_weights_encoding encoding; /**< How the weights are given. */
  uint32_t block;               /**< Sparse: 1, 2, 4, 8 or 16. */
  const uint32_t* starts;       /**< Sparse: for each block row the index of its first position (the first is 0), then
                                     `stored`. */
  const uint32_t* positions;    /**< Sparse: `stored` positions of nonzeros in their block rows. */
  size_t stored;                /**< Sparse: number of positions. */
  /** Decoded: writes the rows of output channels first .. first + count - 1, counted through all groups, to `to`: each
   *  row has all its depth elements, of the weights' type. It must write the same rows each time. Planning calls it,
   *  possibly from several threads at once and while it holds locks, so it must not use the operator or its cache. If
   *  it returns a status other than QN_OK, planning fails with that status. Operators that share a cache assume that
   *  equal `decode` and `context` mean equal weights. */
  qn_status (*decode)(void* context, size_t first, size_t count, void* to);
  const float* scales;        /**< Quantized: `scale_count` finite scales, which are above 0 unless block_length is set;
                                   NULL: the weights are not quantized. */
  const int32_t* zero_points; /**< Quantized: one zero point for each scale; NULL: all are 0. */
  size_t scale_count;         /**< 1, the number of output channels, or that number times the runs of a row; then all
                                   scales of one channel come before those of the next. */
  size_t block_length;        /**< Number of successive elements of a row that share a scale; the last run of a row may
                                   be shorter. 0: the whole row shares one. */
  qn_type bias_type;          /**< Type of the bias that the create function takes: QN_F32, or QN_S32 as described
                                   above. */
  const qn_weights_summary* summary; /**< NULL: the library finds out what the weights hold. */
} qn_weights;

/** Writes struct_size and defaults: QN_F32 for weights and bias, QN_WEIGHTS_OHWI, QN_WEIGHTS_DENSE, block 1, the rest
 *  NULL or 0. */
QN_INIT(qn_weights)

/** Makes a cache of packed weights that operators, models and threads can share. Two operators use one packed copy if
 *  their weights are at the same addresses, they have the same bias, and they need the same packing. The copy lives as
 *  long as an operator uses it. Thread-safe. */
QN_API qn_status qn_weights_cache_create(qn_weights_cache** cache);
/** Bytes of packed weights held now. */
QN_API size_t qn_weights_cache_bytes(const qn_weights_cache* cache);
/** Gives up the caller's reference; operators that use the cache keep it alive. NULL is allowed. */
QN_API void qn_weights_cache_release(qn_weights_cache* cache);

/* ---- create ----------------------------------------------------------------------------------- */

/** Algorithms of convolution and matrix product. */
typedef enum qn_algorithm {
  QN_ALGORITHM_AUTO = 0,   /**< Chosen from shapes, CPU, and weights: SPARSE where enough of them are 0. */
  QN_ALGORITHM_DIRECT = 1, /**< Few input channels: taps and channels are gathered per output row, then multiplied. */
  QN_ALGORITHM_GEMM = 2,   /**< 1x1, stride 1, no padding: the image is the matrix. */
  QN_ALGORITHM_IGEMM = 3,  /**< Indirect GEMM: any kernel, through a table of offsets. */
  QN_ALGORITHM_DEPTHWISE = 4, /**< One input channel per group. */
  QN_ALGORITHM_WINOGRAD = 5,  /**< 3x3, stride 1, dilation 1, one group, by tiles of 2x2, 4x4 or 6x6 outputs. */
  QN_ALGORITHM_SPARSE = 6,    /**< Any convolution or matrix product: multiplies only by weights that are not zero, one
                                   by one or in blocks of channels. In a dense product, an infinity or NaN of the input
                                   times a weight of 0 gives NaN; here it adds nothing, except that some zeros are
                                   multiplied to fill up blocks and steps. An output channel without zeros may make NaN
                                   of an infinity. */
  QN_ALGORITHM_DENSE = 7      /**< Only a request: what AUTO would choose if no weight were zero, so that every weight
                                   is multiplied. qn_plan_algorithm() never returns it. */
} qn_algorithm;

/** Name as used in benchmarks and profiles, for example "igemm"; "?" for an unknown value. */
QN_API const char* qn_algorithm_string(qn_algorithm algorithm);

/** 2-D convolution with groups.  Input N,H,W,in_channels; output N,H',W',out_channels with
 *  H' = (H + top + bottom - ((kernel.h - 1) * dilation.h + 1)) / stride.h + 1, rounded down.
 *
 *  With QN_S8 the tensors that are given to a plan must each be quantized with one scale (qn_quantization), the output,
 *  too. Sums of products are exact. Each is multiplied, in single precision, by scale of the input * scale of the weights
 *  / scale of the output, rounded to the nearest even integer, and added to the output's zero point; the result is
 *  limited to -128 .. 127 and to `min` and `max`, which are real numbers. So the bits are the same on every CPU. A
 *  residual gives the bits of a binary operator that adds it to what the convolution would write alone. */
typedef struct qn_conv2d_params {
  size_t struct_size;  /**< Written by the init function. */
  qn_type type;        /**< Of input, weights and output: QN_F32 or QN_S8. */
  size_t in_channels;  /**< Of all groups together; a multiple of `groups`. */
  size_t out_channels; /**< Of all groups together; a multiple of `groups`. */
  size_t groups;       /**< Parts that the channels are divided into; each sees its own input channels only. */
  qn_hw kernel;        /**< Taps. */
  qn_hw stride;        /**< Input pixels from one output pixel to the next. */
  qn_hw dilation;      /**< Input pixels from one tap to the next. */
  qn_padding padding;  /**< Zeros around the input. */
  float min;           /**< Outputs are clamped to [min, max]; infinities allowed, NaN refused. */
  float max;           /**< Upper bound; at least min. Results that are NaN stay NaN. */
  int quantize_input;  /**< As in qn_fully_connected_params; a pixel is a row. 1x1, stride 1, no padding, one group. */
} qn_conv2d_params;

/** Defaults: QN_F32, one group, kernel 1x1, stride 1, dilation 1, no padding, no clamp. */
QN_INIT(qn_conv2d_params)

/** @param bias   out_channels elements of weights->bias_type, copied; NULL for none.
 *  @param cache  NULL for a cache of the operator's own.
 *  A plan may have a second input, a residual, which is added to the clamped convolution; then
 *  qn_plan_options.residual_min and residual_max clamp the sum. The residual has the output's shape and strides, and
 *  may lie in the output's buffer. Of type QN_S8 it has a scale and zero point of its own, and so has the convolution
 *  (qn_plan_options.addend_scale).
 *
 *  Algorithms: direct, gemm, igemm, depthwise and winograd where they apply. Sparse always applies, and is chosen if
 *  enough of the weights are zero. With sparse, the input, the output or both may be pixel-blocked; a residual has the
 *  output's layout. Depthwise with a multiplier of 1 takes an input and an output that are both pixel-blocked; if the
 *  output has one pixel, it may have either layout. */
QN_API qn_status qn_conv2d_create(const qn_conv2d_params* params, const qn_weights* weights, const void* bias,
                                  qn_weights_cache* cache, qn_operator** op);

/** Depthwise 2-D convolution: output channel c reads input channel c / multiplier. Input N,H,W,channels; output
 *  N,H',W',channels * multiplier. H' and W' are as in qn_conv2d_params. Weights: O (= channels * multiplier), kh, kw,
 *  or kh, kw, O. */
typedef struct qn_dwconv2d_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< As in qn_conv2d_params. */
  size_t channels;    /**< Of the input. */
  size_t multiplier;  /**< Output channels per input channel. */
  qn_hw kernel;       /**< As in qn_conv2d_params, like all that follows. */
  qn_hw stride;       /**< Input pixels from one output pixel to the next. */
  qn_hw dilation;     /**< Input pixels from one tap to the next. */
  qn_padding padding; /**< Zeros around the input. */
  float min;          /**< Lower bound of outputs. */
  float max;          /**< Upper bound of outputs. */
} qn_dwconv2d_params;

/** Defaults: as qn_conv2d_params_init, multiplier 1. */
QN_INIT(qn_dwconv2d_params)
/** Arguments as qn_conv2d_create(). */
QN_API qn_status qn_dwconv2d_create(const qn_dwconv2d_params* params, const qn_weights* weights, const void* bias,
                                    qn_weights_cache* cache, qn_operator** op);

/** Fully connected: input [..., in_channels] (all leading dimensions are rows), output [..., out_channels].
 *
 *  With `quantize_input`, input, bias and output are QN_F32, and the weights QN_S8 with a scale for all or for each
 *  output channel and zero points of 0. While it runs, the operator quantizes each row of the input to 8 bits, with a
 *  scale and a zero point of the row's own: scale = (most - least) / 255, where least and most are the least and the
 *  greatest of 0 and the row's elements; zero = round(-least * (1 / scale)) - 128; q = round(x * (1 / scale)) + zero,
 *  limited to -128 .. 127. A result is ((s - zero * w) * scale) * (the channel's scale) + bias, where s is the sum of
 *  the products of the row's q and the weights, and w the sum of the weights; s - zero * w is exact, then each
 *  operation rounds. So the bits are the same on every CPU. A row whose elements lie within 2^-100 of 0 counts as a row
 *  of zeros, whose results are the biases; all results of a row with a NaN or an infinity are NaN. The sum of the
 *  absolute weights of a channel must not exceed 2^31 / 256 (QN_UNSUPPORTED). The weights may have any layout, and be
 *  dense or decoded. If all of them lie in -8 .. 7, they are packed with 4 bits each where that is faster, with the
 *  same results.
 *  If the weights have a scale for each run of `block_length` elements, a multiple of 32, all of them must lie in
 *  -8 .. 7; they are packed with 4 bits each. Each block of 32 successive elements then has a sum s of products with
 *  the row's q, and a sum w of weights, both exact. S is the sum over all blocks, in their order, of s * (the block's
 *  scale), W that of w * (the block's scale), and a result is (S - zero * W) * scale + bias, where each operation
 *  rounds. */
typedef struct qn_fully_connected_params {
  size_t struct_size;  /**< Written by the init function. */
  qn_type type;        /**< As in qn_conv2d_params. */
  size_t in_channels;  /**< Length of an input row. */
  size_t out_channels; /**< Length of an output row. */
  float min;           /**< Lower bound of outputs, as in qn_conv2d_params. */
  float max;           /**< Upper bound of outputs. */
  int quantize_input;  /**< Non-zero, with QN_F32: the weights are QN_S8, and rows of the input are quantized. */
} qn_fully_connected_params;

/** Defaults: QN_F32, no clamp. */
QN_INIT(qn_fully_connected_params)
/** Arguments as qn_conv2d_create(). */
QN_API qn_status qn_fully_connected_create(const qn_fully_connected_params* params, const qn_weights* weights,
                                           const void* bias, qn_weights_cache* cache, qn_operator** op);

/** What pooling computes from a window. */
typedef enum qn_pool_kind {
  QN_POOL_MAX = 0,    /**< The largest element. */
  QN_POOL_AVERAGE = 1 /**< The mean. */
} qn_pool_kind;

/** How averages of bytes are rounded. The last two average the bytes themselves and round halves away from 0, as
 *  TensorFlow Lite does, exactly for windows of up to 4096 pixels. Input and output have one scale and zero point
 *  (otherwise planning returns QN_INVALID_ARGUMENT), without count_padding and dilation. */
typedef enum qn_pool_rounding {
  QN_POOL_ROUND_REAL = 0, /**< Real numbers become the nearest step of the output. */
  QN_POOL_ROUND_S8 = 1,   /**< The bytes are those of QN_S8. */
  QN_POOL_ROUND_U8 = 2    /**< 128 is added to them before, and subtracted afterwards. */
} qn_pool_rounding;

/** Pooling over windows of an N,H,W,C image. Padding never takes part in a maximum. With dilation, a window may contain
 *  no pixel of the image; its maximum is then -FLT_MAX and its average 0.
 *  QN_S8: each tensor has one scale; for a maximum, input and output have the same scale and zero point (otherwise
 *  planning returns QN_INVALID_ARGUMENT). An average is round(float(s) * f) + zero point, clamped, where s is the sum of
 *  the elements minus their zero point, and f the input's scale / (the output's scale * the number that is divided by).
 *  The maximum of no pixel is the least element. QN_LAYOUT_NHWC only. */
typedef struct qn_pool2d_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32 or QN_S8. */
  qn_pool_kind kind;  /**< Maximum or average. */
  int global;     /**< Non-zero: one window, the whole image; kernel, stride and padding are ignored. Output N,1,1,C. */
  qn_hw kernel;   /**< Size of a window. */
  qn_hw stride;   /**< Input pixels from one window to the next. */
  qn_hw dilation; /**< Input pixels from one pixel of a window to the next. */
  qn_padding padding; /**< Each side must be smaller than the (dilated) kernel. */
  int ceil_mode;      /**< Non-zero: the output size is rounded up. If the padded image is smaller than a window, but by
                           less than a stride, the output size is 1. A last window that would start in the bottom or
                           right padding is dropped, as in Caffe, PyTorch and ONNX. */
  int count_padding;  /**< Only for averages. Non-zero: the sum is divided by the size of the window with its padding,
                           but without what ceil_mode lets it reach beyond the padding. Zero: the sum is divided by the
                           number of the window's pixels inside the image. */
  float min;          /**< Lower bound of outputs, as in qn_conv2d_params. */
  float max;          /**< Upper bound of outputs. */
  qn_pool_rounding rounding; /**< Only for averages of QN_S8. */
} qn_pool2d_params;

/** Defaults: QN_F32, max, kernel 1x1, stride 1, dilation 1, no padding, round down, count_padding 0, no clamp,
 *  QN_POOL_ROUND_REAL. */
QN_INIT(qn_pool2d_params)
/** Checks the parameters and makes the operator; one input and one output, which have the same layout. If the output
 *  has one pixel, it may be QN_LAYOUT_NHWC although the input is pixel-blocked. Images of QN_LAYOUT_NHWC may have any
 *  size and strides, as long as the rows of one window (with `global`, all rows) span no more than 2 GiB; planning for
 *  other images returns QN_UNSUPPORTED. */
QN_API qn_status qn_pool2d_create(const qn_pool2d_params* params, qn_operator** op);

/** Functions of two numbers. */
typedef enum qn_binary_kind {
  QN_ADD = 0, /**< a + b */
  QN_SUB = 1, /**< a - b */
  QN_MUL = 2, /**< a * b */
  QN_DIV = 3  /**< a / b */
} qn_binary_kind;

/** Elementwise a (kind) b, two inputs, broadcast as in NumPy: shapes are aligned at the right, dimensions of 1 repeat.
 *  The output may lie in the buffer of an input that has the output's shape and strides, or of both inputs.
 *  Pixel-blocked tensors must all have the same shape.
 *  QN_S8: each tensor has one scale. With x and y the elements minus their zero points, r, s and t the scales of a, b
 *  and the output, and f() the conversion to float, a sum is round(f(x) * (r / t) + f(y) * (s / t)) and a product
 *  round(f(x * y) * (r * s / t)); to both the zero point of the output is added before they are clamped. Each operation
 *  rounds to nearest even. Not QN_DIV. QN_LAYOUT_NHWC only. */
typedef struct qn_binary_params {
  size_t struct_size;  /**< Written by the init function. */
  qn_type type;        /**< Of all elements: QN_F32 or QN_S8. */
  qn_binary_kind kind; /**< The function. */
  float min;           /**< Lower bound of outputs, as in qn_conv2d_params. */
  float max;           /**< Upper bound of outputs. */
} qn_binary_params;

/** Defaults: QN_F32, QN_ADD, no clamp. */
QN_INIT(qn_binary_params)
/** Checks the parameters and makes the operator; two inputs, one output. */
QN_API qn_status qn_binary_create(const qn_binary_params* params, qn_operator** op);

/** Functions of one number. */
typedef enum qn_unary_kind {
  QN_CLAMP = 0,      /**< min(max(x, alpha), beta): relu is (0, inf), relu6 (0, 6). */
  QN_SIGMOID = 1,    /**< 1 / (1 + e^-x). */
  QN_TANH = 2,       /**< Hyperbolic tangent. */
  QN_HARD_SWISH = 3, /**< x * min(max(x + 3, 0), 6) / 6. */
  QN_POWER = 4,      /**< (alpha * x + beta) ^ gamma. A beta of 0 is not added, so that -0 keeps its sign. */
  QN_EXP = 5         /**< e^x. */
} qn_unary_kind;

/** Applies one function to each element. Input and output may have any shape and layout, but must have the same. The
 *  output may lie in the input's buffer, with the input's strides.
 *  QN_S8: input and output have one scale each, and the function is computed as for QN_F32 from the real number that an
 *  element stands for; QN_POWER needs an exponent of 1, 2, 0.5 or -1. QN_LAYOUT_NHWC only. */
typedef struct qn_unary_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32 or QN_S8. */
  qn_unary_kind kind; /**< The function. */
  float alpha;        /**< First constant of the function, where it has one. */
  float beta;         /**< Second constant. */
  float gamma;        /**< Third constant. */
} qn_unary_params;

/** Defaults: QN_F32, QN_CLAMP to [0, inf] (relu), gamma 1. */
QN_INIT(qn_unary_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_unary_create(const qn_unary_params* params, qn_operator** op);

/** Per-channel operators on [..., channels]. Input and output may have any layout, but must have the same. The output
 *  may lie in the input's buffer, with the input's strides. */
typedef struct qn_channel_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
  size_t channels;    /**< Length of the innermost dimension. */
  float min;          /**< Lower bound of the outputs of scale and batch-norm; prelu ignores it. */
  float max;          /**< Upper bound of the same outputs. */
} qn_channel_params;

/** Defaults: QN_F32, no clamp. */
QN_INIT(qn_channel_params)
/** x < 0 ? x * slope[c] : x.  `slope`: channels floats, copied. */
QN_API qn_status qn_prelu_create(const qn_channel_params* params, const float* slope, qn_operator** op);
/** x * scale[c] + bias[c], rounded after the multiplication and again after the addition.  `scale` and `bias`: channels
 *  floats each, copied. A NULL scale stands for ones, a NULL bias for zeros. */
QN_API qn_status qn_scale_create(const qn_channel_params* params, const float* scale, const float* bias,
                                 qn_operator** op);
/** (x - mean) / sqrt(variance + epsilon) * gamma + beta, computed as qn_scale_create() does. gamma and beta may be
 *  NULL. */
QN_API qn_status qn_batch_norm_create(const qn_channel_params* params, const float* mean, const float* variance,
                                      const float* gamma, const float* beta, float epsilon, qn_operator** op);

/** Converts between real numbers and quantized ones, or between two quantizations. Input and output have the same shape;
 *  a tensor of QN_S8 or QN_U8 has one scale (qn_quantization).
 *  - To quantized: round(x / scale) + zero point, limited to the range of the type; a NaN becomes its least number.
 *  - To real: (element - zero point) * scale.
 *  - Between quantized: to real, and then to quantized.
 *  Rounds to the nearest even integer; computes in single precision. */
typedef struct qn_quantize_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of the input: QN_F32, QN_S8 or QN_U8. */
  qn_type to;         /**< Of the output: one of these. Not both may be QN_F32. */
} qn_quantize_params;

/** Defaults: from QN_F32 to QN_S8. */
QN_INIT(qn_quantize_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_quantize_create(const qn_quantize_params* params, qn_operator** op);

/** Softmax over one axis; NaN in gives NaN out. Of QN_S8, input and output have one scale each, and the results are
 *  those of real numbers, rounded to the nearest step; their bits are the same on every CPU. */
typedef struct qn_softmax_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32 or QN_S8. */
  int axis;           /**< Negative counts from the end. */
} qn_softmax_params;

/** Defaults: QN_F32, axis -1. */
QN_INIT(qn_softmax_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_softmax_create(const qn_softmax_params* params, qn_operator** op);

/** Joins inputs along one axis; all their other dimensions must be equal. Quantized tensors must all have the same
 *  scale and zero point. An input may already lie at its place in the output, with the output's strides: then nothing
 *  is copied. All tensors must have the same layout; pixel-blocked ones can be joined along channels only. */
typedef struct qn_concat_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: any. */
  int axis;           /**< Negative counts from the end. */
} qn_concat_params;

/** Defaults: QN_F32, axis -1. */
QN_INIT(qn_concat_params)
/** Checks the parameters and makes the operator; any number of inputs, one output. */
QN_API qn_status qn_concat_create(const qn_concat_params* params, qn_operator** op);

/** Local response normalization across channels of [..., C] (Krizhevsky 2012):
 *  y[c] = x[c] / (k + alpha / size * sum of x[i]^2 for i in c - (size-1)/2 .. c + size/2) ^ beta. */
typedef struct qn_lrn_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
  size_t size;        /**< Channels in a window. */
  float alpha;        /**< Of the formula. */
  float beta;         /**< Of the formula. */
  float k;            /**< Of the formula. */
} qn_lrn_params;

/** Defaults: QN_F32, size 5, alpha 1e-4, beta 0.75, k 1. */
QN_INIT(qn_lrn_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_lrn_create(const qn_lrn_params* params, qn_operator** op);

/** Surrounds a tensor with a constant. Input and output, if quantized, must have the same scale and zero point. The
 *  input may already lie at its place in the output, with the output's strides. */
typedef struct qn_pad_params {
  size_t struct_size;         /**< Written by the init function. */
  qn_type type;               /**< Of all elements: any. */
  uint32_t rank;              /**< Of the input. */
  size_t before[QN_MAX_RANK]; /**< Elements added in front, per dimension. */
  size_t after[QN_MAX_RANK];  /**< Elements added behind, per dimension. */
  float value;                /**< Value of the elements added. For integers, the type must be able to hold it; for
                                   QN_F16 it must be 0. */
} qn_pad_params;

/** Defaults: QN_F32, rank 4, nothing added, value 0. */
QN_INIT(qn_pad_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_pad_create(const qn_pad_params* params, qn_operator** op);

/** How resizing makes a pixel. */
typedef enum qn_resize_kind {
  QN_RESIZE_NEAREST = 0, /**< One pixel. */
  QN_RESIZE_BILINEAR = 1 /**< A weighted mean of four. */
} qn_resize_kind;

/** Where output pixel i lies in the input, with s = in / out. */
typedef enum qn_resize_coordinates {
  QN_COORDINATES_HALF_PIXEL = 0,     /**< (i + 0.5) * s - 0.5 */
  QN_COORDINATES_ASYMMETRIC = 1,     /**< i * s */
  QN_COORDINATES_ALIGN_CORNERS = 2,  /**< i * (in - 1) / (out - 1) */
  QN_COORDINATES_HALF_PIXEL_OR_0 = 3 /**< As QN_COORDINATES_HALF_PIXEL, but 0 where the output is one pixel. */
} qn_resize_coordinates;

/** How QN_RESIZE_NEAREST chooses between two pixels. */
typedef enum qn_resize_rounding {
  QN_ROUND_FLOOR = 0,     /**< The lower index. */
  QN_ROUND_CEIL = 1,      /**< The higher index. */
  QN_ROUND_HALF_DOWN = 2, /**< To nearest, ties towards the lower index. */
  QN_ROUND_HALF_UP = 3    /**< To nearest, ties towards the higher index. */
} qn_resize_rounding;

/** Resizes N,H,W,C images; positions outside the image use the nearest edge pixel. Input and output, if quantized, must
 *  have the same scale and zero point. */
typedef struct qn_resize2d_params {
  size_t struct_size;                /**< Written by the init function. */
  qn_type type;                      /**< Of all elements: QN_F32; with QN_RESIZE_NEAREST also QN_S8. */
  qn_resize_kind kind;               /**< One pixel, or a mean of four. */
  qn_resize_coordinates coordinates; /**< Where output pixels lie. */
  qn_resize_rounding rounding;       /**< Only used with QN_RESIZE_NEAREST. */
  qn_hw size;                        /**< Output size; 0,0: input size times scale, rounded down. */
  float scale_h;                     /**< Factor for the height, used if size is 0,0; then s is 1 / scale. */
  float scale_w;                     /**< The same for the width. */
} qn_resize2d_params;

/** Defaults: QN_F32, nearest, half pixel, half down, size 0,0, scale 1. */
QN_INIT(qn_resize2d_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_resize2d_create(const qn_resize2d_params* params, qn_operator** op);

/** Reorders dimensions: output dimension i is input dimension permutation[i]. Input and output, if quantized, must have
 *  the same scale and zero point. */
typedef struct qn_transpose_params {
  size_t struct_size;                /**< Written by the init function. */
  qn_type type;                      /**< Of all elements: any. */
  uint32_t rank;                     /**< Of input and output. */
  uint32_t permutation[QN_MAX_RANK]; /**< Each of 0 .. rank-1 once. */
} qn_transpose_params;

/** Defaults: QN_F32, rank 0 (must be set). */
QN_INIT(qn_transpose_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_transpose_create(const qn_transpose_params* params, qn_operator** op);

/** Takes the elements begin[i], begin[i]+1 .. end[i]-1 of each dimension i; none if begin[i] is end[i]. SIZE_MAX - n,
 *  with n up to PTRDIFF_MAX, counts from the end: it means the dimension's size minus n. Input and output must have the
 *  same layout; a slice of a pixel-blocked image can leave out channels only. If they are quantized, both must have the
 *  same scale and zero point. The output may lie at its place in the input, with the input's strides: then nothing is
 *  copied. */
typedef struct qn_slice_params {
  size_t struct_size;        /**< Written by the init function. */
  qn_type type;              /**< Of all elements: any. */
  uint32_t rank;             /**< Of input and output. */
  size_t begin[QN_MAX_RANK]; /**< First element taken, per dimension; or SIZE_MAX - n. */
  size_t end[QN_MAX_RANK];   /**< One past the last; SIZE_MAX: to the end of the dimension. */
} qn_slice_params;

/** Defaults: QN_F32, rank 0 (must be set), begin 0, end SIZE_MAX. */
QN_INIT(qn_slice_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_slice_create(const qn_slice_params* params, qn_operator** op);

/** Gives up the caller's reference; plans keep what they need. NULL is allowed. */
QN_API void qn_operator_release(qn_operator* op);

/* ---- plan and run ----------------------------------------------------------------------------- */

/** Measured choices: the algorithm and micro-kernel that was the fastest for a convolution or matrix product with
 *  certain shapes, strides, number of tasks and instruction set level. They are saved as text, see
 *  qn_tuning_load_memory(). Thread-safe. */
typedef struct qn_tuning qn_tuning;

/** Makes an object without choices. */
QN_API qn_status qn_tuning_create(qn_tuning** tuning);
/** Adds the choices in a text, all of them or none. A choice in the text replaces an existing one for the same problem.
 *  The text is a line "quern-tuning 3", followed by one line per problem as qn_tuning_save_file() writes it; no problem
 *  may occur twice. ("quern-tuning 2" has no types: all its problems are of f32.) The call refuses a text with a line
 *  that it does not understand, or that names something this library does not know. It keeps lines for instruction set
 *  levels of other machines. */
QN_API qn_status qn_tuning_load_memory(qn_tuning* tuning, const char* text, size_t size);
/** Adds the choices in a file in the same way. Messages name the file and the line. */
QN_API qn_status qn_tuning_load_file(qn_tuning* tuning, const char* path);
/** Writes all choices to a file, in an order that does not depend on when they were added. The call replaces an
 *  existing file only after everything is written, and keeps its permissions. If `path` is a link, it replaces the file
 *  that the link points to. It does not replace anything that is not a regular file. */
QN_API qn_status qn_tuning_save_file(const qn_tuning* tuning, const char* path);
/** Number of choices. */
QN_API size_t qn_tuning_count(const qn_tuning* tuning);
/** Gives up the caller's reference; sessions keep theirs. NULL is allowed. */
QN_API void qn_tuning_release(qn_tuning* tuning);

/** What a plan is made for. */
typedef struct qn_plan_options {
  size_t struct_size;     /**< Written by the init function. */
  size_t tasks;           /**< How many tasks run at the same time, usually the number of threads; at least 1. The
                               result does not depend on it. */
  qn_algorithm algorithm; /**< If an algorithm other than AUTO does not apply, planning returns QN_UNSUPPORTED. AUTO may
                               skip weights of 0, see QN_ALGORITHM_SPARSE; DENSE never skips any. */
  const char* kernel;     /**< Name of a micro-kernel to use, for tests and benchmarks; NULL: the best. */
  qn_tuning* tuning;      /**< If it has a choice that applies, planning takes that choice, unless `algorithm` or
                               `kernel` is set. Only used while planning. Choices may differ with the number of tasks,
                               and the last digits of results differ with them; bounds of errors and memory hold for
                               choices from a file, too. NULL: the cost model chooses. */
  int tune;               /**< Non-zero: if `tuning` has no choice, planning runs all candidates that apply and adds the
                               fastest to `tuning`. This takes some tenths of a second, and memory for inputs, outputs
                               and the packings of all candidates. */
  const qn_parallel* parallel; /**< Threads on which `tune` runs the candidates; NULL: the calling thread. */
  size_t traffic; /**< Bytes of other data that pass through the caches between two runs; in a model, the bytes of all
                       weights. The cost model and `tune` conclude from this in which cache, or in memory, a run finds
                       this operator's weights. 0: none. */
  float residual_min; /**< Lower bound to which a convolution with a residual clamps the sum; -INFINITY: none. */
  float residual_max; /**< Upper bound of that sum; INFINITY: none. */
  float addend_scale; /**< Of a QN_S8 convolution with a residual: the scale of the convolution's own bytes, which the
                           residual is added to. 0: that and the zero point of the output. */
  int32_t addend_zero_point;  /**< The zero point of these bytes, -128 .. 127. */
  float between_scale;        /**< Of a chain of QN_S8: the scale of the tensor between its two operators. */
  int32_t between_zero_point; /**< The zero point of that tensor, -128 .. 127. */
} qn_plan_options;

/** Defaults: one task, QN_ALGORITHM_AUTO, kernel NULL, no tuning, residual_min -INFINITY, residual_max INFINITY,
 *  addend_scale 0, between_scale 0. */
QN_INIT(qn_plan_options)

/** Fixes shapes, strides, algorithm, splits and workspace.  May pack weights into the cache.
 *  @param ins      n_in descriptions.
 *  @param outs     n_out descriptions, or NULL with n_out 0: outputs are then inferred and dense, and qn_plan_output()
 *                  describes them.
 *  @param options  NULL for defaults.
 *  Thread-safe for one operator. */
QN_API qn_status qn_operator_plan(const qn_operator* op, const qn_tensor* ins, size_t n_in, const qn_tensor* outs,
                                  size_t n_out, const qn_plan_options* options, qn_plan** plan);

/** Plans second(first(x)) as one pass over the image, so that what the first operator computes stays in the CPU's cache
 *  until the second reads it. The first is a depthwise convolution or a pooling, the second a 1x1 convolution.
 *  @param in       the input of the first.
 *  @param out      the output of the second; NULL: inferred, dense.
 *  @param options  as in qn_operator_plan().
 *  Returns QN_UNSUPPORTED if that is not possible or not faster; then plan the two operators separately. The results
 *  have the same bits either way. The plan keeps both operators alive. */
QN_API qn_status qn_operator_plan_chain(const qn_operator* first, const qn_operator* second, const qn_tensor* in,
                                        const qn_tensor* out, const qn_plan_options* options, qn_plan** plan);

/** Description of output `index`. */
QN_API qn_status qn_plan_output(const qn_plan* plan, size_t index, qn_tensor* tensor);
/** Bytes of workspace a run needs; 0 for many operators. */
QN_API size_t qn_plan_workspace_size(const qn_plan* plan);
/** The algorithm chosen; QN_ALGORITHM_AUTO for operators that have no choice of algorithm. */
QN_API qn_algorithm qn_plan_algorithm(const qn_plan* plan);
/** Name of the main micro-kernel, "" for operators without one; lives as long as the plan. */
QN_API const char* qn_plan_kernel(const qn_plan* plan);
/** Multiply-accumulates of a convolution or fully-connected plan, padding taps included; 0 otherwise. */
QN_API uint64_t qn_plan_macs(const qn_plan* plan);

/** Runs the plan.
 *  @param inputs          an array of addresses, aligned to the element type.
 *  @param outputs         the same; an output must not overlap an input unless the operator says so.
 *  @param workspace       memory aligned to 64 bytes, which only one run may use at a time. It may hold any values
 *                         before the run, and holds arbitrary values after it. NULL if the plan needs none.
 *  @param workspace_size  its bytes, at least qn_plan_workspace_size().
 *  @param parallel        NULL: on the calling thread.
 *  With valid buffers the call fails only with QN_CANCELLED, if `parallel` says so. Returns QN_INVALID_ARGUMENT, and
 *  writes nothing, if an address is NULL or misaligned, the workspace is missing or too small, or buffers overlap. */
QN_API qn_status qn_plan_run(const qn_plan* plan, const void* const* inputs, void* const* outputs, void* workspace,
                             size_t workspace_size, const qn_parallel* parallel);

/** Gives up the plan. NULL is allowed. */
QN_API void qn_plan_release(qn_plan* plan);

/* ---- matrix products without operator objects -------------------------------------------------- */

/** C = clamp(A * B + bias), row-major floats.  A is m x k, B is k x n (or n x k when transpose_b), C m x n.
 *  @param lda            elements from one row of A to the next.
 *  @param ldb            the same of B.
 *  @param ldc            the same of C.
 *  @param bias           n floats added to every row, or NULL.
 *  @param min            lower bound of C; -INFINITY for none.
 *  @param max            upper bound of C; INFINITY for none.
 *  C must not overlap A, B or bias. k = 0 gives clamp(bias). Every call packs B into memory that it allocates and
 *  frees.
 */
QN_API qn_status qn_gemm_f32(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
                             int transpose_b, const float* bias, float min, float max, float* c, size_t ldc,
                             const qn_parallel* parallel);

/** C = clamp(A * B + bias) with A and C of floats and B of bytes with scales: each row of A is quantized as
 *  `quantize_input` of qn_fully_connected_params describes, and the results have the bits of that operator.
 *  A is m x k floats, B is k x n bytes (or n x k when transpose_b), C m x n floats, all row-major.
 *  @param lda            elements from one row of A to the next.
 *  @param ldb            the same of B.
 *  @param ldc            the same of C.
 *  @param scales         `scale_count` scales of B, finite and, without block_length, above 0: 1, or n, one for each
 *                        column of C. A byte b of column j stands for the real number b * scales[j].
 *  @param block_length   0; or a multiple of 32: a scale holds for so many successive elements of a column of B, whose
 *                        last run may be shorter. All scales of a column come before those of the next. The bytes must
 *                        then lie in -8 .. 7.
 *  @param bias           n floats added to every row, in units of C, or NULL.
 *  @param min            lower bound of C; -INFINITY for none.
 *  @param max            upper bound of C; INFINITY for none.
 *  The call keeps nothing of its arguments. C must not overlap A, B, scales or bias. k = 0 gives clamp(bias). Every
 *  call packs B, and quantizes A, into memory that it allocates and frees; for many products with the same B, make an
 *  operator instead. Returns QN_INVALID_ARGUMENT for NULL or misaligned arrays, distances below a row's length, bounds
 *  out of order, bad scales, or overlaps, and QN_UNSUPPORTED if sums may overflow 32 bits, or with blocks that it does
 *  not compute with. */
QN_API qn_status qn_gemm_qd8(size_t m, size_t n, size_t k, const float* a, size_t lda, const int8_t* b, size_t ldb,
                             int transpose_b, const float* scales, size_t scale_count, size_t block_length,
                             const float* bias, float min, float max, float* c, size_t ldc,
                             const qn_parallel* parallel);

/** C = clamp(A * B + bias) with A and C of floats and B of bytes with scales. The results have the bits of a
 *  fully-connected operator of QN_F32 with these weights: nothing is quantized, and no sum can be refused.
 *  @param block_length  0, or any number of successive elements of a column of B that share a scale.
 *  Bytes may be -128 .. 127 in any case. For the other arguments see qn_gemm_qd8(). */
QN_API qn_status qn_gemm_qw8(size_t m, size_t n, size_t k, const float* a, size_t lda, const int8_t* b, size_t ldb,
                             int transpose_b, const float* scales, size_t scale_count, size_t block_length,
                             const float* bias, float min, float max, float* c, size_t ldc,
                             const qn_parallel* parallel);

/** C = clamp(A * B + bias) of bytes, row-major: A is m x k, B is k x n (or n x k when transpose_b), C m x n. The
 *  results have the bits of a fully-connected operator of QN_S8.
 *  @param lda      elements from one row of A to the next.
 *  @param a_scale  a byte x of A stands for the real number (x - a_zero) * a_scale.
 *  @param a_zero   likewise.
 *  @param ldb      elements from one row of B to the next.
 *  @param scales   as in qn_gemm_qd8(), without blocks.
 *  @param bias     n 32-bit integers added to the sums of products, in units of a_scale * scales[j]; or NULL.
 *  @param min      lower bound of C, a real number; -INFINITY for none.
 *  @param max      upper bound of C, a real number; INFINITY for none.
 *  @param ldc      elements from one row of C to the next.
 *  @param c_scale  a byte x of C stands for the real number (x - c_zero) * c_scale.
 *  @param c_zero   likewise.
 *  For the rest see qn_gemm_qd8(). */
QN_API qn_status qn_gemm_qs8(size_t m, size_t n, size_t k, const int8_t* a, size_t lda, float a_scale, int32_t a_zero,
                             const int8_t* b, size_t ldb, int transpose_b, const float* scales, size_t scale_count,
                             const int32_t* bias, float min, float max, int8_t* c, size_t ldc, float c_scale,
                             int32_t c_zero, const qn_parallel* parallel);

/** C = clamp(A * B + bias) for a sparse A, row-major floats: A is m x k, B is k x n, C m x n. Unlike in qn_gemm_f32 the
 *  bias belongs to the rows.
 *  @param a              A as the weights of m output channels and k input channels: either all its elements
 *                        (QN_WEIGHTS_DENSE, m * k floats), or those that are not zero (QN_WEIGHTS_SPARSE: CSR, or
 *                        blocks of up to 16 rows; positions are columns). Zeros are skipped, except for some that fill
 *                        blocks; as in a dense product, such a zero times an infinity of B makes a NaN.
 *  @param ldb            elements from one row of B to the next.
 *  @param ldc            the same of C.
 *  @param bias           m floats, bias[i] added to all of row i, or NULL.
 *  @param min            lower bound of C; -INFINITY for none.
 *  @param max            upper bound of C; INFINITY for none.
 *  C must not overlap the others. k = 0 gives clamp(bias). Every call packs A, and copies B piece by piece, into memory
 *  that it allocates and frees. For many products with the same A, make an operator instead. */
QN_API qn_status qn_spmm_f32(size_t m, size_t n, size_t k, const qn_weights* a, const float* b, size_t ldb,
                             const float* bias, float min, float max, float* c, size_t ldc,
                             const qn_parallel* parallel);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
