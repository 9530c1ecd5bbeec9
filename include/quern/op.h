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
 *  Tensors are row-major; images are N, H, W, C.  Any batch size.
 *  Arrays and buffers that a call is given must be aligned to their elements, or it answers QN_INVALID_ARGUMENT.
 *  So it does where what it writes, an output or a workspace, overlaps another buffer of the call, unless the operator
 *  says that it may. What overlaps is elements, not the gaps between them: outputs and inputs may be slices of one
 *  buffer, the channels of an image for example, that have no element in common.
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

/** How weights are given. What an encoding does not name below is not read. */
typedef enum qn_weights_encoding {
  QN_WEIGHTS_DENSE = 0,  /**< `data`: every element, in the order of `layout`. */
  QN_WEIGHTS_SPARSE = 1, /**< `data`, `block`, `starts`, `positions`, `stored`: the nonzeros. */
  QN_WEIGHTS_DECODED = 2 /**< `decode` makes the rows of some output channels whenever they are needed. */
} qn_weights_encoding;

/** Weights of a convolution or fully-connected operator.
 *
 *  Everything that it points to must stay valid and unchanged until the operator and all its plans are released. The
 *  rows of QN_WEIGHTS_SPARSE and QN_WEIGHTS_DECODED are those of QN_WEIGHTS_OHWI, the one layout they allow: an output
 *  channel's row has `depth` = kernel height x kernel width x I elements in that order.
 *
 *  QN_WEIGHTS_SPARSE is compressed sparse rows, where `block` output channels of one group, one after the other, share
 *  a row: their block row. A group has as many block rows as its output channels need; the last one's last channels may
 *  not exist. Group after group, block row r has nonzeros at positions[starts[r]], positions[starts[r] + 1] ..
 *  positions[starts[r + 1] - 1], ascending and less than depth; element j of channel c of the block is
 *  data[j * block + c]. Values of channels that do not exist are ignored. A value may be 0.
 *
 *  Weights of integers are quantized: real = scale * (element - zero point), with a scale for all weights, for each
 *  output channel, or for each run of `block_length` elements of an output channel's row. The type of the bias stands
 *  here, too. A bias of QN_S32 is added to the sums of products of integers, so its scale is that of the input times
 *  that of the weights (of the channel), and its zero point 0.
 *
 *  This version computes with QN_F32 alone, and answers others with QN_UNSUPPORTED. */
typedef struct qn_weights {
  size_t struct_size;       /**< Written by the init function. */
  qn_type type;             /**< Of the elements. */
  qn_weights_layout layout; /**< Order of the elements. */
  const void* data;         /**< The elements; sparse: those stored, `block` for each position. */
  /** Called while dense weights are packed, in the thread that plans, when `bytes` bytes from `read` on will not be
   *  needed soon: the owner of a mapped file may let go of their pages. They may be read again for another packing.
   *  NULL: nobody wants to know. */
  void (*was_read)(void* context, const void* read, size_t bytes);
  void* context;                /**< The first argument of was_read and decode. */
  qn_weights_encoding encoding; /**< Which members count. */
  uint32_t block;               /**< Sparse: 1, 2, 4, 8 or 16. */
  const uint32_t* starts;       /**< Sparse: one for each block row, the first 0, and `stored`. */
  const uint32_t* positions;    /**< Sparse: `stored` of them. */
  size_t stored;                /**< Sparse: number of positions. */
  /** Decoded: writes the rows of output channels first .. first + count - 1, of all groups together, to `to`: all
   *  depth elements of each, of the weights' type. The same rows each time. Called while planning, possibly from several
   *  threads at once and with locks held: it must not use the operator or its cache. A status other than QN_OK fails the
   *  plan with that. Operators that share a cache take equal `decode` and `context` for equal weights. */
  qn_status (*decode)(void* context, size_t first, size_t count, void* to);
  const float* scales;        /**< Quantized: `scale_count` of them; NULL: the weights are not quantized. */
  const int32_t* zero_points; /**< Quantized: one for each scale; NULL: all 0. */
  size_t scale_count;         /**< 1; or the number of output channels; or that times the runs of a row, those of one
                                   channel after those of the other. */
  size_t block_length;        /**< Elements of a row that share a scale, the last run may be shorter; 0: all. */
  qn_type bias_type;          /**< Of the bias that the create function is given: QN_F32, or QN_S32 as above. */
} qn_weights;

/** Writes struct_size and defaults: QN_F32, also of the bias, QN_WEIGHTS_OHWI, QN_WEIGHTS_DENSE, block 1, the rest NULL
 *  or 0. */
QN_INIT(qn_weights)

/** Packed weights, shared between operators, models and threads: two operators whose weights are at the same
 *  addresses, with the same bias, and want the same packing share one copy, which lives as long as an operator uses it.
 * Thread-safe. */
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
  QN_ALGORITHM_SPARSE = 6,    /**< Any: only what is not zero of the weights, single ones or blocks of channels. An
                                   infinity or NaN of the input times a weight of 0, in a dense product NaN, adds
                                   nothing then; but some zeros are multiplied, to fill up blocks and steps. An output
                                   channel without zeros may make NaN of an infinity. */
  QN_ALGORITHM_DENSE = 7      /**< To ask for: what AUTO would choose if no weight were zero, so that none is left out.
                                   No plan answers it. */
} qn_algorithm;

/** Name as used in benchmarks and profiles, for example "igemm"; "?" for an unknown value. */
QN_API const char* qn_algorithm_string(qn_algorithm algorithm);

/** 2-D convolution with groups.  Input N,H,W,in_channels; output N,H',W',out_channels with
 *  H' = (H + top + bottom - ((kernel.h - 1) * dilation.h + 1)) / stride.h + 1, rounded down. */
typedef struct qn_conv2d_params {
  size_t struct_size;  /**< Written by the init function. */
  qn_type type;        /**< Of all elements: QN_F32. */
  size_t in_channels;  /**< Of all groups together; a multiple of `groups`. */
  size_t out_channels; /**< The same. */
  size_t groups;       /**< Parts that the channels are divided into; each sees its own input channels only. */
  qn_hw kernel;        /**< Taps. */
  qn_hw stride;        /**< Input pixels from one output pixel to the next. */
  qn_hw dilation;      /**< Input pixels from one tap to the next. */
  qn_padding padding;  /**< Zeros around the input. */
  float min;           /**< Outputs are clamped to [min, max]; infinities allowed, NaN refused. */
  float max;           /**< At least min. NaN results stay NaN. */
} qn_conv2d_params;

/** Defaults: QN_F32, one group, kernel 1x1, stride 1, dilation 1, no padding, no clamp. */
QN_INIT(qn_conv2d_params)

/** @param bias   out_channels elements of weights->bias_type, copied; NULL for none.
 *  @param cache  NULL for a cache of the operator's own.
 *  A second input, if a plan has one, is a residual: it has the output's shape and strides, may be the output itself,
 *  and is added to the clamped convolution; then qn_plan_options.residual_min and _max clamp the sum.
 *  Algorithms: direct, gemm, igemm, depthwise, winograd where they apply; sparse always, and chosen where enough of the
 *  weights are zero. Sparse takes pixel-blocked tensors, input, output or both; a residual lies as the output. So does
 *  depthwise with a multiplier of 1, where both are pixel-blocked, and into an output of one pixel of either layout. */
QN_API qn_status qn_conv2d_create(const qn_conv2d_params* params, const qn_weights* weights, const void* bias,
                                  qn_weights_cache* cache, qn_operator** op);

/** Depthwise 2-D convolution: output channel c reads input channel c / multiplier. Input N,H,W,channels; output
 *  channels * multiplier. Sizes as qn_conv2d_params. Weights: O (= channels * multiplier), kh, kw, or kh, kw, O. */
typedef struct qn_dwconv2d_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
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

/** Fully connected: input [..., in_channels] (all leading dimensions are rows), output [..., out_channels]. */
typedef struct qn_fully_connected_params {
  size_t struct_size;  /**< Written by the init function. */
  qn_type type;        /**< Of all elements: QN_F32. */
  size_t in_channels;  /**< Length of an input row. */
  size_t out_channels; /**< Length of an output row. */
  float min;           /**< Lower bound of outputs, as in qn_conv2d_params. */
  float max;           /**< Upper bound of outputs. */
} qn_fully_connected_params;

/** Defaults: QN_F32, no clamp. */
QN_INIT(qn_fully_connected_params)
/** Arguments as qn_conv2d_create(). */
QN_API qn_status qn_fully_connected_create(const qn_fully_connected_params* params, const qn_weights* weights,
                                           const void* bias, qn_weights_cache* cache, qn_operator** op);

/** What pooling takes of a window. */
typedef enum qn_pool_kind {
  QN_POOL_MAX = 0,    /**< The largest element. */
  QN_POOL_AVERAGE = 1 /**< The mean. */
} qn_pool_kind;

/** Pooling over windows of an N,H,W,C image. Padding never takes part in a maximum. A window that sees nothing of the
 *  image, as dilation allows, gives -FLT_MAX as its maximum and 0 as its average. */
typedef struct qn_pool2d_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
  qn_pool_kind kind;  /**< Maximum or average. */
  int global;     /**< Non-zero: one window, the whole image; kernel, stride and padding are ignored. Output N,1,1,C. */
  qn_hw kernel;   /**< Size of a window. */
  qn_hw stride;   /**< Input pixels from one window to the next. */
  qn_hw dilation; /**< Input pixels from one pixel of a window to the next. */
  qn_padding padding; /**< Each side must be smaller than the (dilated) kernel. */
  int ceil_mode;      /**< Non-zero: round the output size up, to 1 where the padded image is smaller than a window by
                           less than a stride; a last window that would start in the bottom or right padding is
                           dropped (Caffe, PyTorch, ONNX). */
  int count_padding;  /**< Average: non-zero divides by the window's size, its padding included (but not what
                           ceil_mode lets it reach beyond the padding); zero by the pixels inside the image. */
  float min;          /**< Lower bound of outputs, as in qn_conv2d_params. */
  float max;          /**< Upper bound of outputs. */
} qn_pool2d_params;

/** Defaults: QN_F32, max, kernel 1x1, stride 1, dilation 1, no padding, round down, count_padding 0, no clamp. */
QN_INIT(qn_pool2d_params)
/** Checks the parameters and makes the operator; one input, one output, of one layout. An output of one pixel may be
 *  QN_LAYOUT_NHWC though the input is pixel-blocked. Images of QN_LAYOUT_NHWC may have any size and strides as long
 *  as the rows that one window sees, all of them if `global`, reach no further than 2 GiB; plans for others are
 *  refused with QN_UNSUPPORTED. */
QN_API qn_status qn_pool2d_create(const qn_pool2d_params* params, qn_operator** op);

/** Functions of two numbers. */
typedef enum qn_binary_kind {
  QN_ADD = 0, /**< a + b */
  QN_SUB = 1, /**< a - b */
  QN_MUL = 2, /**< a * b */
  QN_DIV = 3  /**< a / b */
} qn_binary_kind;

/** Elementwise a (kind) b, two inputs, broadcast as in NumPy: shapes are aligned at the right, dimensions of 1 repeat.
 *  The output may be an input that has the output's shape and strides, or both. Pixel-blocked tensors: all of one
 *  shape. */
typedef struct qn_binary_params {
  size_t struct_size;  /**< Written by the init function. */
  qn_type type;        /**< Of all elements: QN_F32. */
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
  QN_POWER = 4,      /**< (alpha * x + beta) ^ gamma. */
  QN_EXP = 5         /**< e^x. */
} qn_unary_kind;

/** One function of each element; any shape and layout, but the same of both. The output may be the input, with its
 *  strides. */
typedef struct qn_unary_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
  qn_unary_kind kind; /**< The function. */
  float alpha;        /**< First constant of the function, where it has one. */
  float beta;         /**< Second constant. */
  float gamma;        /**< Third constant. */
} qn_unary_params;

/** Defaults: QN_F32, QN_CLAMP to [0, inf] (relu), gamma 1. */
QN_INIT(qn_unary_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_unary_create(const qn_unary_params* params, qn_operator** op);

/** Per-channel operators on [..., channels], of any layout, but the same of both. The output may be the input, with its
 *  strides. */
typedef struct qn_channel_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
  size_t channels;    /**< Length of the innermost dimension. */
  float min;          /**< Lower bound of the outputs of scale and batch-norm; prelu ignores it. */
  float max;          /**< Upper bound, the same. */
} qn_channel_params;

/** Defaults: QN_F32, no clamp. */
QN_INIT(qn_channel_params)
/** x < 0 ? x * slope[c] : x.  `slope`: channels floats, copied. */
QN_API qn_status qn_prelu_create(const qn_channel_params* params, const float* slope, qn_operator** op);
/** x * scale[c] + bias[c] (multiply, then add: rounded twice).  channels floats each, copied; NULL scale is 1, NULL
 * bias 0. */
QN_API qn_status qn_scale_create(const qn_channel_params* params, const float* scale, const float* bias,
                                 qn_operator** op);
/** (x - mean) / sqrt(variance + epsilon) * gamma + beta, computed as qn_scale.  gamma and beta may be NULL. */
QN_API qn_status qn_batch_norm_create(const qn_channel_params* params, const float* mean, const float* variance,
                                      const float* gamma, const float* beta, float epsilon, qn_operator** op);

/** Softmax over one axis; NaN in gives NaN out. */
typedef struct qn_softmax_params {
  size_t struct_size; /**< Written by the init function. */
  qn_type type;       /**< Of all elements: QN_F32. */
  int axis;           /**< Negative counts from the end. */
} qn_softmax_params;

/** Defaults: QN_F32, axis -1. */
QN_INIT(qn_softmax_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_softmax_create(const qn_softmax_params* params, qn_operator** op);

/** Joins inputs of equal shape but for one axis. Quantized tensors all have the same scale and zero point. An input may
 *  lie where its part of the output is, with the output's strides: then nothing is copied. All tensors are of one layout;
 *  pixel-blocked ones are joined by channels. */
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

/** Surrounds a tensor with a constant. Quantized, input and output have the same scale and zero point. The input may lie
 *  where it belongs in the output, with the output's strides. */
typedef struct qn_pad_params {
  size_t struct_size;         /**< Written by the init function. */
  qn_type type;               /**< Of all elements: any. */
  uint32_t rank;              /**< Of the input. */
  size_t before[QN_MAX_RANK]; /**< Elements added in front, per dimension. */
  size_t after[QN_MAX_RANK];  /**< Elements added behind, per dimension. */
  float value;                /**< Of the elements added; of integers one that the type has. Of QN_F16: 0. */
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

/** How nearest chooses between two pixels. */
typedef enum qn_resize_rounding {
  QN_ROUND_FLOOR = 0,     /**< The lower index. */
  QN_ROUND_CEIL = 1,      /**< The higher index. */
  QN_ROUND_HALF_DOWN = 2, /**< To nearest, ties towards the lower index. */
  QN_ROUND_HALF_UP = 3    /**< To nearest, ties towards the higher index. */
} qn_resize_rounding;

/** Resizes N,H,W,C images; positions outside the image use the nearest edge pixel. */
typedef struct qn_resize2d_params {
  size_t struct_size;                /**< Written by the init function. */
  qn_type type;                      /**< Of all elements: QN_F32. */
  qn_resize_kind kind;               /**< One pixel, or a mean of four. */
  qn_resize_coordinates coordinates; /**< Where output pixels lie. */
  qn_resize_rounding rounding;       /**< Nearest only. */
  qn_hw size;                        /**< Output size; 0,0: input size times scale, rounded down. */
  float scale_h;                     /**< Used where size is 0; then also s = 1 / scale. */
  float scale_w;                     /**< The same for the width. */
} qn_resize2d_params;

/** Defaults: QN_F32, nearest, half pixel, half down, size 0,0, scale 1. */
QN_INIT(qn_resize2d_params)
/** Checks the parameters and makes the operator; one input, one output. */
QN_API qn_status qn_resize2d_create(const qn_resize2d_params* params, qn_operator** op);

/** Reorders dimensions: output dimension i is input dimension permutation[i]. Quantized, input and output have the same
 *  scale and zero point. */
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

/** Takes begin[i], begin[i]+1 .. end[i]-1 of each dimension. SIZE_MAX - n, with n up to PTRDIFF_MAX, counts from
 * behind: it is the dimension's size less n. Input and output are of one layout; of a pixel-blocked image only channels
 * are left out. Quantized, both have the same scale and zero point. The output may lie where its part of the input is,
 * with the input's strides: then nothing is copied. */
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

/** Measured choices: which algorithm and micro-kernel of a convolution or matrix product was the fastest, by shapes,
 *  strides, number of tasks and instruction set level. Kept as text, see qn_tuning_load_memory(). Thread-safe. */
typedef struct qn_tuning qn_tuning;

/** Makes an empty one. */
QN_API qn_status qn_tuning_create(qn_tuning** tuning);
/** Adds the choices of a text, all or none; where there is one already, the text's replaces it. The text is a line
 *  "quern-tuning 3", then one line per problem as qn_tuning_save_file() writes them, none twice. ("quern-tuning 2" had no
 *  types: all its problems are of f32.) A line that is not
 *  understood, or names what this library does not know, is refused; one for another machine's level is kept. */
QN_API qn_status qn_tuning_load_memory(qn_tuning* tuning, const char* text, size_t size);
/** The same from a file. Messages name it and the line. */
QN_API qn_status qn_tuning_load_file(qn_tuning* tuning, const char* path);
/** Writes all choices, in an order that does not depend on when they were added. The file is replaced when all is
 *  written, and keeps its permissions; of what is no regular file nothing is. Where `path` is a link, the file that it
 *  points to is. */
QN_API qn_status qn_tuning_save_file(const qn_tuning* tuning, const char* path);
/** Number of choices. */
QN_API size_t qn_tuning_count(const qn_tuning* tuning);
/** Gives up the caller's reference; sessions keep theirs. NULL is allowed. */
QN_API void qn_tuning_release(qn_tuning* tuning);

/** What a plan is made for. */
typedef struct qn_plan_options {
  size_t struct_size;     /**< Written by the init function. */
  size_t tasks;           /**< How many tasks run at a time, usually the number of threads; at least 1. The result does
                               not depend on it. */
  qn_algorithm algorithm; /**< Anything but AUTO is used or answered with QN_UNSUPPORTED. AUTO may leave out weights
                               of 0, see QN_ALGORITHM_SPARSE, and DENSE does not. */
  const char* kernel;     /**< Name of a micro-kernel to use, for tests and benchmarks; NULL: the best. */
  qn_tuning* tuning;      /**< Its choice is taken where it has one that applies, unless `algorithm` or `kernel` is set.
                               Only used while planning. A choice may differ by number of tasks, and the last digits of
                               results with it; bounds of errors and memory hold for choices from a file, too. NULL:
                               the cost model chooses. */
  int tune;               /**< Non-zero: where `tuning` has no choice, run what applies and add the fastest. Takes some
                               tenths of a second, and memory for inputs, outputs and all the packings tried. */
  const qn_parallel* parallel; /**< tune: where to run that; NULL: on the calling thread. */
  size_t traffic; /**< Bytes of other data that pass the caches between two runs, in a model those of all weights: the
                       cost model, and `tune`, take this operator's weights from where that leaves them. 0: none. */
  float residual_min; /**< Of a convolution with a residual: the sum with it is clamped to this and */
  float residual_max; /**< this; no more than that if -INFINITY and INFINITY. */
} qn_plan_options;

/** Defaults: one task, QN_ALGORITHM_AUTO, kernel NULL, no tuning, residual_min and _max infinite. */
QN_INIT(qn_plan_options)

/** Fixes shapes, strides, algorithm, splits and workspace.  May pack weights into the cache.
 *  @param ins      n_in descriptions.
 *  @param outs     n_out descriptions, or NULL (n_out then 0): inferred, dense; ask qn_plan_output().
 *  @param options  NULL for defaults.
 *  Thread-safe for one operator. */
QN_API qn_status qn_operator_plan(const qn_operator* op, const qn_tensor* ins, size_t n_in, const qn_tensor* outs,
                                  size_t n_out, const qn_plan_options* options, qn_plan** plan);

/** Plans second(first(x)) as one pass over the image, which keeps what is between the two in the cache: a depthwise
 *  convolution or pooling and a 1x1 convolution.
 *  @param in, out, options  the input of the first, the output of the second (NULL: inferred, dense), both as in
 *                           qn_operator_plan().
 *  QN_UNSUPPORTED where that is not possible or does not pay: plan them one after the other then.
 *  The results have the same bits either way. The plan keeps both operators alive. */
QN_API qn_status qn_operator_plan_chain(const qn_operator* first, const qn_operator* second, const qn_tensor* in,
                                        const qn_tensor* out, const qn_plan_options* options, qn_plan** plan);

/** Description of output `index`. */
QN_API qn_status qn_plan_output(const qn_plan* plan, size_t index, qn_tensor* tensor);
/** Bytes of workspace a run needs; 0 for many operators. */
QN_API size_t qn_plan_workspace_size(const qn_plan* plan);
/** The algorithm chosen; QN_ALGORITHM_AUTO for operators that have none. */
QN_API qn_algorithm qn_plan_algorithm(const qn_plan* plan);
/** Name of the main micro-kernel, "" for operators without one; lives as long as the plan. */
QN_API const char* qn_plan_kernel(const qn_plan* plan);
/** Multiply-accumulates of a convolution or fully-connected plan, padding taps included; 0 otherwise. */
QN_API uint64_t qn_plan_macs(const qn_plan* plan);

/** Runs the plan.
 *  @param inputs, outputs  arrays of addresses, aligned to the element type; an output must not overlap an input
 *                          unless the operator says so.
 *  @param workspace        memory aligned to 64 that one run uses at a time, beginning and ending with any values; NULL
 *                          where the plan needs none.
 *  @param workspace_size   its bytes, at least qn_plan_workspace_size().
 *  @param parallel         NULL: on the calling thread.
 *  Cannot fail on valid buffers; QN_INVALID_ARGUMENT for NULL or misaligned addresses, a workspace that is missing or
 *  too small, and buffers that overlap. Then nothing is written. */
QN_API qn_status qn_plan_run(const qn_plan* plan, const void* const* inputs, void* const* outputs, void* workspace,
                             size_t workspace_size, const qn_parallel* parallel);

/** Gives up the plan. NULL is allowed. */
QN_API void qn_plan_release(qn_plan* plan);

/* ---- matrix products without operator objects -------------------------------------------------- */

/** C = clamp(A * B + bias), row-major floats.  A is m x k, B is k x n (or n x k when transpose_b), C m x n.
 *  @param lda, ldb, ldc  elements from one row to the next.
 *  @param bias           n floats added to every row, or NULL.
 *  @param min, max       clamp; -INFINITY and INFINITY for none.
 *  C must not overlap A, B or bias. k = 0 gives clamp(bias). Packs B on every call into memory it allocates and frees.
 */
QN_API qn_status qn_gemm_f32(size_t m, size_t n, size_t k, const float* a, size_t lda, const float* b, size_t ldb,
                             int transpose_b, const float* bias, float min, float max, float* c, size_t ldc,
                             const qn_parallel* parallel);

/** C = clamp(A * B + bias) for a sparse A, row-major floats: A is m x k, B is k x n, C m x n. Unlike in qn_gemm_f32 the
 *  bias belongs to the rows.
 *  @param a              A as the weights of m output channels and k input channels: its rows with zeros
 *                        (QN_WEIGHTS_DENSE, m * k floats), or what is not zero (QN_WEIGHTS_SPARSE: CSR, or blocks of up
 *                        to 16 rows; positions are columns). Zeros are left out, but for some that fill blocks: there,
 *                        as in a dense product, an infinity of B makes a NaN.
 *  @param ldb, ldc       elements from one row to the next.
 *  @param bias           m floats, bias[i] added to all of row i, or NULL.
 *  @param min, max       clamp; -INFINITY and INFINITY for none.
 *  C must not overlap the others. k = 0 gives clamp(bias). Packs A on every call, and copies B piece by piece, into
 *  memory it allocates and frees: for many products with the same A make an operator. */
QN_API qn_status qn_spmm_f32(size_t m, size_t n, size_t k, const qn_weights* a, const float* b, size_t ldb,
                             const float* bias, float min, float max, float* c, size_t ldc,
                             const qn_parallel* parallel);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
