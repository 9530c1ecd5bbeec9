/* Quern: kinds of nodes that a program adds to the library's own.  Part of quern.h.
 *
 * A model's graph may hold nodes that the library does not know: they name a kind, and whoever has registered a kind of
 * this name runs them. libquern-extra registers its operators in this way, and so does a host with operators of its own.
 *
 *     static const qn_kind kinds[] = {{.struct_size = sizeof(qn_kind), .name = "my_op", .max_inputs = 1, ...}};
 *     qn_register_kinds(kinds, 1);                       before models that need them are loaded */
#ifndef QUERN_KIND_H
#define QUERN_KIND_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup kind Kinds of nodes
 *  All functions of a kind may be called from several threads at once. They return a status, and leave a message for
 *  qn_last_message() by qn_fail(). They must not throw.
 *  @{ */

/** A node of a graph, as the functions of its kind see it: a name, parameters, operands. It has at most 256 parameters,
 *  each of another name. It stays valid and unchanged as long as what create() or plan() has made for it. */
typedef struct qn_node qn_node;

/** Name of the node in its model; never NULL. */
QN_API const char* qn_node_name(const qn_node* node);
/** Whole numbers that the node has under a name: their address, and in `count` how many there are. Without them NULL
 *  and 0. */
QN_API const int64_t* qn_node_integers(const qn_node* node, const char* name, size_t* count);
/** Floats that the node has under a name, in the same way. */
QN_API const float* qn_node_floats(const qn_node* node, const char* name, size_t* count);
/** Records what is wrong with a node, one line, for qn_last_message(). Returns `status`. */
QN_API qn_status qn_fail(qn_status status, const char* message);

/** An operand of a node, dense and row-major. A tensor without elements (a dimension of 0) may have any address.
 *  Booleans that a kind reads are 0 or 1; of those that it writes, all but 0 become 1. */
typedef struct qn_operand {
  qn_tensor tensor; /**< Type 0: the node does not have this optional input, or nobody needs this output. */
  void* data;       /**< Never written if it is an input. infer(), create() and plan() see NULL unless it is known. */
} qn_operand;

/** One run of a node. */
typedef struct qn_node_run {
  const qn_node* node;         /**< The node. */
  const qn_operand* inputs;    /**< Its inputs, with data. */
  size_t input_count;          /**< How many. */
  const qn_operand* outputs;   /**< Its outputs, with room for their elements. */
  size_t output_count;         /**< How many. */
  void* made;                  /**< What create() has made; NULL without create(). */
  void* planned;               /**< What plan() has made; NULL without plan(). */
  void* workspace;             /**< As many bytes as plan() has asked for, aligned to 64. */
  const qn_parallel* parallel; /**< NULL: run on the calling thread. See qn_node_cancelled(), too. */
  /** Only for kinds with QN_KIND_SIZED_BY_RUN, whose outputs have no address yet: gives output `index` this shape, and
   *  memory for its elements at `*data`. Must be called once for each output. */
  qn_status (*allocate)(const struct qn_node_run* run, size_t index, uint32_t rank, const size_t* shape, void** data);
  void* context; /**< For allocate(). */
} qn_node_run;

/** Returns whether the run was cancelled (qn_session_cancel()). A kind whose run() may take longer than 100 ms asks now
 *  and then, from any thread that runs its tasks. Calls of op.h ask by themselves if they get `parallel`. Once the
 *  answer is not 0, it stays so, and run() should return QN_CANCELLED soon. */
static inline int qn_node_cancelled(const qn_node_run* run) {
  const qn_parallel* parallel = run->parallel;
  return parallel != 0 && parallel->cancelled != 0 && parallel->cancelled(parallel->context);
}

/** The shapes of outputs are known only after a run, as those of the places of nonzeros. */
#define QN_KIND_SIZED_BY_RUN 1u
/** An output may lie in the memory of an input that has its type and shape. */
#define QN_KIND_IN_PLACE 2u
/** Inputs are broadcast by NumPy's rules, and each element of an output depends on the elements at its place only. So the
 *  optimizer may compute the node in another order of dimensions. */
#define QN_KIND_ELEMENTWISE 4u
/** A small change of an input can change an element of an output by a whole step, as it does with rounding. The optimizer
 *  does not merge affine steps whose results reach such a node. QN_KIND_ELEMENTWISE implies it for nodes with inputs of
 *  QN_F32 and an output of another type. */
#define QN_KIND_JUMPS 8u
/** Elements of an output are elements of inputs, unchanged, as in a reshape or a gather. */
#define QN_KIND_MOVES 16u

/** A kind of nodes. */
typedef struct qn_kind {
  size_t struct_size;    /**< sizeof(qn_kind). */
  const char* name;      /**< What nodes call it; at most 63 characters. */
  uint32_t min_inputs;   /**< Inputs from here on may be absent. */
  uint32_t max_inputs;   /**< At most 256. */
  uint32_t max_outputs;  /**< At least 1, at most 256. */
  uint32_t flags;        /**< QN_KIND_ bits. */
  uint64_t value_inputs; /**< Bit i: the shapes of outputs depend on the elements of input i, not only on its shape. A
                              node with such an input that is no constant is planned anew when its elements change. */
  /** Checks the node, and completes the descriptions of its outputs: each has its type already, and gets rank and shape.
   *  An output of another type than the kind gives is an error. Unless the kind is sized by its runs, and whenever an
   *  input of `value_inputs` is given, its data is known. */
  qn_status (*infer)(const qn_node* node, const qn_operand* inputs, size_t input_count, qn_tensor* outputs,
                     size_t output_count);
  /** Optional. Makes once for a model what runs of the node have in common. `inputs`: those that are constants have
   *  data, which stays valid as long as `made`; of others only the type is known. */
  qn_status (*create)(const qn_node* node, const qn_operand* inputs, size_t input_count, void** made);
  /** Frees what create() has made. */
  void (*release)(void* made);
  /** Optional. Prepares runs with operands of these shapes by up to `tasks` tasks. */
  qn_status (*plan)(const qn_node* node, void* made, const qn_operand* inputs, size_t input_count,
                    const qn_operand* outputs, size_t output_count, size_t tasks, void** planned, size_t* workspace);
  /** Frees what plan() has made. */
  void (*release_plan)(void* planned);
  /** Computes the outputs. */
  qn_status (*run)(const qn_node_run* run);
} qn_kind;

/** Registers an array of kinds, which must stay valid and unchanged until qn_unregister_kinds() has succeeded. Fails if
 *  two kinds have one name, in the array or with one registered before, if a kind lacks infer() or run(), or if 64
 *  arrays are registered. A call that fails registers none of the kinds. Not thread-safe: no other thread may load or
 *  release a model, or run a session, during the call. */
QN_API qn_status qn_register_kinds(const qn_kind* kinds, size_t count);

/** Takes back the array that qn_register_kinds() was given at this address. A library that registers kinds must call
 *  this before it is unloaded (dlclose()): the next model that is loaded would read memory that is gone. Returns
 *  QN_INVALID_ARGUMENT, and changes nothing, if the array is not registered, or if models still have nodes of its
 *  kinds: release them and their sessions first. Not thread-safe, like qn_register_kinds(). The kinds of libquern-extra
 *  stay registered, and dlclose() does not unload that library. */
QN_API qn_status qn_unregister_kinds(const qn_kind* kinds);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
