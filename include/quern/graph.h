/* Quern: models.  Part of quern.h.
 *
 *     qn_model_load_file("net.qn", NULL, &model);        shared by any number of sessions
 *     qn_session_create(model, &options, &session);      plans for the model's own input sizes
 *     qn_session_resize(session, 0, 4, shape);           optional
 *     qn_session_run(session, inputs);                   then qn_session_output(session, 0, &data) */
#ifndef QUERN_GRAPH_H
#define QUERN_GRAPH_H

#include "base.h"
#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup graph Models
 *  A model's inputs and outputs keep the names, layout and type of the source it was converted from.
 *  @{ */

/** A loaded model: graph and weights. Immutable; shared between threads and sessions. */
typedef struct qn_model qn_model;
/** One use of a model: sizes, plans, arena. Only one thread may run a session at a time; make one session for each
 *  thread. */
typedef struct qn_session qn_session;
/** Memory for activations and workspace of sessions that never run at the same time. */
typedef struct qn_arena qn_arena;

/** How a model is loaded. */
typedef struct qn_model_options {
  size_t struct_size;      /**< Written by the init function. */
  qn_weights_cache* cache; /**< Cache that keeps packed weights; NULL: the model makes its own. */
} qn_model_options;

/** Defaults: cache NULL. */
QN_INIT(qn_model_options)

/** Maps a .qn file. The file must not change while the model lives. options may be NULL. */
QN_API qn_status qn_model_load_file(const char* path, const qn_model_options* options, qn_model** model);

/** As `length` of qn_model_load_fd(): everything up to the end of the file. */
#define QN_TO_END UINT64_MAX

/** Maps `length` bytes of a file, beginning at byte `offset`; they must hold a .qn file and nothing else. An example is
 *  a .qn file that lies uncompressed in an Android package: AAsset_openFileDescriptor64() returns its descriptor,
 *  offset and length. `fd` must be open for reading. It stays the caller's, who may close it after the call; its file
 *  position does not matter and does not change. `length` may be QN_TO_END. While the model lives, these bytes must not
 *  change and the file must not become shorter. If `offset` is not a multiple of 64, the call copies all the bytes to
 *  memory; Android packages align files to 4 bytes only, unless told otherwise. options may be NULL. The call returns
 *  QN_INVALID_ARGUMENT if the range reaches beyond the file, and QN_IO_ERROR if `fd` is not a regular file or not open
 *  for reading. */
QN_API qn_status qn_model_load_fd(int fd, uint64_t offset, uint64_t length, const qn_model_options* options,
                                  qn_model** model);
/** Uses a .qn image in memory, which must stay valid and unchanged until the model and its sessions are released.
 *  If `data` is not aligned to 64 bytes, the weights are copied. */
QN_API qn_status qn_model_load_memory(const void* data, size_t size, const qn_model_options* options, qn_model** model);
/** Gives up the caller's reference; sessions keep the model alive. NULL is allowed. */
QN_API void qn_model_release(qn_model* model);

/** How an image becomes an input tensor: decode, resize, crop, order channels, (x - mean) * scale. */
typedef struct qn_preprocessing {
  size_t struct_size; /**< Written by the init function. */
  int present;        /**< Zero: the model does not describe preprocessing, and all other members are zero. */
  int bgr;            /**< Non-zero: blue first. */
  float mean[4];      /**< Per channel in the tensor's order, on pixel values 0..255. */
  float scale[4];     /**< Per channel, in the same order. */
  uint32_t resize;    /**< Length in pixels that the shorter side is resized to; 0: no resizing. */
  uint32_t crop[2];   /**< Sides of successive centre crops (square); 0: none. */
} qn_preprocessing;

/** Makes the struct ready to be filled. */
QN_INIT_OUTPUT(qn_preprocessing)

/** An input or output of a model, as the user sees it. */
typedef struct qn_port {
  size_t struct_size; /**< Written by the init function. */
  const char* name;   /**< Lives as long as the model. */
  qn_tensor tensor;   /**< Dense, in the source's layout. */
} qn_port;

/** Makes the struct ready to be filled. */
QN_INIT_OUTPUT(qn_port)

/** Number of inputs. */
QN_API size_t qn_model_input_count(const qn_model* model);
/** Number of outputs. */
QN_API size_t qn_model_output_count(const qn_model* model);
/** Describes input `index`, with the shape it has in the file. `port` must be initialised, as it must for
 *  qn_model_output(). */
QN_API qn_status qn_model_input(const qn_model* model, size_t index, qn_port* port);
/** Describes output `index`, with the shape that follows from the inputs' shapes in the file. */
QN_API qn_status qn_model_output(const qn_model* model, size_t index, qn_port* port);
/** As a result of qn_model_state_output(): the input is no state. */
#define QN_NO_STATE SIZE_MAX

/** Models that listen to a stream, recurrent ones for example, carry tensors from run to run: the next run of a session
 *  reads in an input what the run before has left in an output. Such a state is an input and an output of the model like
 *  others, but a run needs no buffer for the input. Returns the output that belongs to input `input`, or QN_NO_STATE. */
QN_API size_t qn_model_state_output(const qn_model* model, size_t input);
/** Says how an image becomes input `index`. `preprocessing` must be initialised. */
QN_API qn_status qn_model_preprocessing(const qn_model* model, size_t index, qn_preprocessing* preprocessing);

/** Makes an arena. Any number of sessions, of one model or several, can use it through qn_session_options.arena.
 *  Everything that a session computes lies in its arena, including its outputs. So only one of these sessions may be
 *  made, resized, run or asked for an output at a time; a call that runs a session, or makes the arena grow, while
 *  another session of it runs returns QN_INVALID_ARGUMENT. An output that is not bound is available until another
 *  session of the arena runs or the arena grows. To give it to another session of the arena as an input, copy or bind
 *  it. Sessions of one model with the same input sizes, number of tasks and algorithm, and without tuning, also share
 *  their tables, whichever arena they use.
 *  @param memory  NULL: the arena takes memory from the library's allocator. It grows when a session that needs more
 *                 than it has is made or resized, and does not shrink until it is released. Otherwise: memory of the
 *                 caller's, aligned to 64 bytes. It must stay valid until the arena and its sessions are released, and
 *                 nobody else may use it while one of them runs. Between runs the caller may overwrite it, which
 *                 destroys the outputs in it. Sessions that need more memory than this are refused with
 *                 QN_OUT_OF_MEMORY. To find out how much sessions need, ask qn_session_memory() of a session without an
 *                 arena, or qn_arena_bytes() of an arena that grows.
 *  @param size    Bytes of `memory`; if `memory` is NULL, the bytes that the arena begins with. */
QN_API qn_status qn_arena_create(void* memory, size_t size, qn_arena** arena);
/** Gives up the caller's reference; sessions keep the arena alive. NULL is allowed. */
QN_API void qn_arena_release(qn_arena* arena);
/** Size of the arena in bytes; 0 for NULL. Thread-safe. */
QN_API size_t qn_arena_bytes(const qn_arena* arena);

/** As qn_session_options.threads: as many threads as `parallel` has, or 1 if `parallel` is NULL. */
#define QN_THREADS_DEFAULT SIZE_MAX

/** How a session runs. */
typedef struct qn_session_options {
  size_t struct_size; /**< Written by the init function. */
  size_t threads;     /**< How many tasks run at the same time, at most 1024. 0: as many as `parallel` has threads; if
                           `parallel` is NULL, one for each fast core that this process may use. The fast cores are all
                           cores, or on a CPU with clusters of different speed those outside the slowest cluster. The
                           calling thread's affinity limits which are counted, and so does the CPU quota of Linux'
                           control groups, as it is when the library is first used. 1: everything runs on the calling
                           thread, even with `parallel`. */
  const qn_parallel* parallel; /**< The host's own threads; the session copies the struct. If it does not say how many
                                    threads there are, 0 and QN_THREADS_DEFAULT in `threads` mean one for each fast
                                    core. NULL: the session makes a pthreadpool, of no more threads than
                                    this process may use CPUs. */
  qn_algorithm algorithm; /**< Used for every convolution and fully connected layer to which it applies; the others use
                               AUTO. SPARSE does not apply to depthwise convolutions. AUTO may skip weights of 0, so
                               that an infinite input times such a weight does not become NaN; DENSE never skips any. */
  int profile;            /**< Non-zero: time every operator. */
  size_t memory_limit; /**< Largest number of bytes that planning may take for packed weights, tables and activations; a
                            plan that needs more fails with QN_OUT_OF_MEMORY. 0: 1 GiB plus four times the model's
                            weights while the session uses the input sizes of the model's file, because a small file may
                            ask for huge ones; no limit for sizes that the caller asks for. */
  qn_tuning* tuning;   /**< Measured choices, used where `algorithm` leaves the choice open, see qn_plan_options. The
                            session keeps a reference. NULL: none. */
  int tune;        /**< Non-zero: where `tuning` has no choice yet, planning measures the candidates on the session's
                        threads and adds the fastest to `tuning`. This takes from seconds to a minute for a model.
                        qn_tuning_save_file() saves the choices for other processes. */
  qn_arena* arena; /**< Memory for the session's activations and workspace; the session keeps a reference. NULL: the
                        session makes an arena of its own. */
} qn_session_options;

/** Defaults: QN_THREADS_DEFAULT, parallel NULL, QN_ALGORITHM_AUTO, no profile, memory_limit 0, no tuning, no arena. */
QN_INIT(qn_session_options)

/** Plans every operator for the input sizes that the model's file gives. options may be NULL. The call also returns
 *  QN_OUT_OF_MEMORY if limits of the process or of its user do not allow so many threads. */
QN_API qn_status qn_session_create(qn_model* model, const qn_session_options* options, qn_session** session);
/** Frees the session. NULL is allowed. */
QN_API void qn_session_release(qn_session* session);

/** Gives input `index` another shape of the same rank, in the source's layout, and plans the model again. On failure
 *  the session keeps its old sizes. */
QN_API qn_status qn_session_resize(qn_session* session, size_t index, uint32_t rank, const size_t* shape);
/** The same for all inputs at once, for models whose inputs must change together: one entry of `tensors` per input. */
QN_API qn_status qn_session_resize_all(qn_session* session, const qn_tensor* tensors);

/** Current description of an input. */
QN_API qn_status qn_session_input_tensor(const qn_session* session, size_t index, qn_tensor* tensor);
/** Current description of an output. */
QN_API qn_status qn_session_output_tensor(const qn_session* session, size_t index, qn_tensor* tensor);

/** Runs the model. `inputs` holds the address of one dense buffer per input; the run only reads them. A NULL address
 *  means the buffer that is bound to the input or, if none is, its state (qn_model_state_output()); if all inputs are
 *  bound or states, `inputs` itself may be NULL. Buffers inside
 *  the session's arena are refused: to use an output that a session left there, copy it first, or bind the output to a
 *  buffer elsewhere. Returns QN_CANCELLED if qn_session_cancel() stopped the run. */
QN_API qn_status qn_session_run(qn_session* session, const void* const* inputs);

/** Makes all states of the session zero (int8 and uint8: their zero point), as they are before its first run, so that the
 *  next run begins a new stream.
 *  Do not make this call while the session runs; it may overwrite what the last run has left in outputs of states. A
 *  run that is given a buffer for the input of a state reads the buffer instead of the state: this is how a stream begins
 *  with other content. A run that fails or is cancelled does not change the states, and a resize keeps those whose shape
 *  stays; the others become zero. See qn_model_state_output(). */
QN_API qn_status qn_session_reset_states(qn_session* session);

/** Binds a buffer of `size` bytes at `data` to input `index`: a run that is given no other buffer for this input reads
 *  it there. The buffer holds a dense tensor, may be larger than the tensor, and needs no more alignment than its
 *  elements do. Neither this call nor a run copies it, except to convert QN_F16 or QN_BOOL. The buffer stays the
 *  caller's and is never written. It must be valid and must not change while the session runs; at other times its
 *  content does not matter. It stays bound, also when the session is resized, until the caller binds another buffer or
 *  NULL (then `size` does not matter), or the session is released. A resize that needs more than `size` bytes is
 *  refused. Do not make this call while the session runs; of all calls on a session, only qn_session_cancel() is
 *  allowed then. */
QN_API qn_status qn_session_bind_input(qn_session* session, size_t index, const void* data, size_t size);
/** Binds a buffer to output `index` in the same way: runs leave the output there, and qn_session_output() then returns
 *  `data`. The model computes the output directly in the buffer, with the same bits as without it. Only an output that
 *  is QN_F16, an input, a constant or the same as another output is copied there at the end of a run. A run may write
 *  to the buffer from its beginning on and read back what it wrote; a cancelled run leaves arbitrary values in it. The
 *  buffer must not overlap a buffer that is bound to another input or output, nor an input given to a run: either
 *  returns QN_INVALID_ARGUMENT, as a wrong size or alignment does. Binding an output does not make the arena
 *  smaller. */
QN_API qn_status qn_session_bind_output(qn_session* session, size_t index, void* data, size_t size);
/** Address of output `index` of the last run, a dense tensor. It is valid until the next run, resize or release. In an
 *  arena of several sessions it is valid only until another of them runs or the arena grows; after that, this call
 *  returns QN_INVALID_ARGUMENT. */
QN_API qn_status qn_session_output(const qn_session* session, size_t index, const void** data);

/** Asks a run in another thread to stop. The run notices within 100 ms, also within an operator; within a node of a
 *  host's kind only if the kind asks (qn_node_cancelled()). A small build notices before the next operator. If no run is
 *  going on, the next run stops at once. A run that is about to end may finish as if nothing had been asked.
 *  Thread-safe. */
QN_API void qn_session_cancel(qn_session* session);

/** Bytes of activations and workspace that the session needs, in its own arena or in the one it was given. */
QN_API size_t qn_session_memory(const qn_session* session);

/** One operator of a profiling session. Strings live until the next run, resize or release. Operators whose tensors
 *  only a run can size come after all others. A branch or a loop is one of them; its time and its macs include those of
 *  the operators that ran inside, which follow it. */
typedef struct qn_profile_entry {
  size_t struct_size;    /**< Written by the init function. */
  const char* name;      /**< Name of the node in the model. */
  const char* op;        /**< Kind of operator, for example "conv2d". */
  const char* algorithm; /**< "" if only one applies. */
  const char* kernel;    /**< Main micro-kernel or "". */
  uint64_t macs;         /**< Multiply-accumulates; 0 where there are none. */
  uint64_t start_ns;     /**< Nanoseconds from the start of the last run to the operator's start. */
  uint64_t time_ns;      /**< Nanoseconds that the operator took; 0 if the last run did not reach it, or if there was no
                              run. */
  uint32_t depth; /**< 0: an operator of the model. Above: one that ran inside the last entry before it whose depth is
                       lower by 1, a branch or a loop. */
  uint32_t runs;  /**< How often the operator ran in the last run of the model; above 1 only inside loops. Then time_ns
                       is the sum of all these runs, and macs are those of the last one. start_ns of an entry inside
                       counts from the start of its graph. */
} qn_profile_entry;

/** Makes the struct ready to be filled. */
QN_INIT_OUTPUT(qn_profile_entry)

/** Number of entries; 0 without `profile`. A run that takes another branch may change it. */
QN_API size_t qn_session_profile_count(const qn_session* session);
/** Entry `index`, in the order of execution. `entry` must be initialised. */
QN_API qn_status qn_session_profile(const qn_session* session, size_t index, qn_profile_entry* entry);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
