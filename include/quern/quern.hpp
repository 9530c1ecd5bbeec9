/* Quern for C++17: handles that own the objects of quern.h, and exceptions for errors. Only this header is needed. */
#ifndef QUERN_QUERN_HPP
#define QUERN_QUERN_HPP

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "quern.h"

/** Quern for C++17. QN_API gives the namespace the visibility that the functions of the C API have: with QN_STATIC, a
 *  shared library does not export it. */
namespace qn QN_API {

/** \defgroup cpp C++
 *  `quern/quern.hpp`, for C++17, has handles that own the objects of the C API, and reports errors as exceptions. A
 *  program that includes it links the library and nothing else.
 *
 *      const qn::Model model = qn::Model::load_file("net.qn");
 *      qn::Session session = qn::Session::create(model);
 *      session.run({pixels});
 *      const auto* scores = static_cast<const float*>(session.output(0));
 *
 *  Each member calls the C function of its name. The description of that function says what it does, how long pointers
 *  stay valid, and which calls may be made at the same time. A handle works like a std::unique_ptr: it can be moved but
 *  not copied, and its destructor gives up the caller's reference. Of an empty handle, only the members of qn::Handle
 *  may be called. Some C functions have no member here; get() and put() pass a handle to them.
 *
 *  A call that fails throws qn::Error. In a program compiled without exceptions (`-fno-exceptions`), it writes the
 *  message to stderr and ends the process with std::abort(). Such a program, if it must go on after an error, and any
 *  program that prefers a qn_status, calls the C function:
 *
 *      qn::Model model;
 *      if (qn_model_load_file("net.qn", nullptr, model.put()) != QN_OK) return qn_last_message();
 *
 *  The namespace is not called quern, because the library itself uses that namespace for its own classes, some of which
 *  have the same names.
 *  @{ */

/** The exception that a failed call throws. It holds the status of the call and the text of qn_last_message(). */
class Error : public std::exception {
 public:
  /** If the message is empty, as in a trimmed library, what() returns the name of the status. */
  Error(qn_status status, const char* message)
      : status_(status), message_(*message != '\0' ? message : qn_status_string(status)) {}
  /** The status of the call; never QN_OK. */
  qn_status status() const noexcept { return status_; }
  /** One line that says what is wrong and where. */
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  qn_status status_;
  std::string message_;
};

/** Checks the status that a C function returned. Unless it is QN_OK, throws qn::Error or, in a program without
 *  exceptions, aborts. */
inline void check(qn_status status) {
  if (status == QN_OK) return;
  const Error error(status, qn_last_message());
#ifdef __cpp_exceptions
  throw error;
#else
  std::fprintf(stderr, "%s\n", error.what());
  std::abort();
#endif
}

/** Returns a struct of the C API that its init function has filled in:
 *  `auto params = qn::init(qn_conv2d_params_init);`. */
template <class T>
T init(void (*init_function)(T*)) {
  T value;
  init_function(&value);
  return value;
}

/** Returns the description of a dense tensor: `qn::tensor({1, height, width, channels})`. */
inline qn_tensor tensor(std::initializer_list<size_t> shape, qn_type type = QN_F32) {
  qn_tensor result;
  check(qn_tensor_init(&result, type, static_cast<uint32_t>(shape.size()), shape.begin()));
  return result;
}

/** Owns an object of the C API, or nothing. `give_up` is the C function that releases the object. */
template <class T, void (*give_up)(T*)>
class Handle {
 public:
  /** Owns nothing. */
  Handle() noexcept = default;
  /** Takes over the caller's reference; NULL is allowed. */
  explicit Handle(T* object) noexcept : object_(object) {}
  /** Leaves `other` empty. */
  Handle(Handle&& other) noexcept : object_(other.release()) {}
  /** Releases the object that it owned, takes over that of `other`, and leaves `other` empty. */
  Handle& operator=(Handle&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Handle() { give_up(object_); }

  /** Returns the object for a call of a C function; NULL if the handle is empty. */
  T* get() const noexcept { return object_; }
  /** Whether the handle owns an object. */
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /** Leaves the handle empty and returns the object, which the caller must release from now on. */
  T* release() noexcept { return std::exchange(object_, nullptr); }
  /** Releases the object that the handle owned, and takes over `object`. */
  void reset(T* object = nullptr) noexcept { give_up(std::exchange(object_, object)); }
  /** Releases the object that the handle owned, and returns the address at which a C function can store a new one. */
  T** put() noexcept {
    reset();
    return &object_;
  }

 private:
  T* object_ = nullptr;
};

/** Owns a qn_weights_cache. */
class WeightsCache : public Handle<qn_weights_cache, qn_weights_cache_release> {
 public:
  using Handle::Handle;
  /** qn_weights_cache_create() */
  static WeightsCache create() {
    WeightsCache cache;
    check(qn_weights_cache_create(cache.put()));
    return cache;
  }
  /** qn_weights_cache_bytes() */
  size_t bytes() const noexcept { return qn_weights_cache_bytes(get()); }
};

/** Owns a qn_tuning. */
class Tuning : public Handle<qn_tuning, qn_tuning_release> {
 public:
  using Handle::Handle;
  /** qn_tuning_create() */
  static Tuning create() {
    Tuning tuning;
    check(qn_tuning_create(tuning.put()));
    return tuning;
  }
  /** qn_tuning_load_memory() */
  void load_memory(const char* text, size_t size) { check(qn_tuning_load_memory(get(), text, size)); }
  /** qn_tuning_load_file() */
  void load_file(const char* path) { check(qn_tuning_load_file(get(), path)); }
  /** qn_tuning_save_file() */
  void save_file(const char* path) const { check(qn_tuning_save_file(get(), path)); }
  /** qn_tuning_count() */
  size_t count() const noexcept { return qn_tuning_count(get()); }
};

/** Owns a qn_operator. */
class Operator : public Handle<qn_operator, qn_operator_release> {
 public:
  using Handle::Handle;
  /** Makes an operator with one of the create functions of op.h. Takes that function, then all of its arguments but the
   *  last: `qn::Operator::create(qn_conv2d_create, &params, &weights, bias, nullptr)`. */
  template <class Function, class... Arguments>
  static Operator create(Function create_function, const Arguments&... arguments) {
    Operator op;
    check(create_function(arguments..., op.put()));
    return op;
  }
};

/** Memory that a plan uses while it runs. Only one run may use it at a time. */
class Workspace {
 public:
  /** Allocates at least `size` bytes, aligned to 64. */
  explicit Workspace(size_t size) : size_((size + sizeof(Line) - 1) / sizeof(Line)), lines_(new Line[size_]) {}
  /** Address of its first byte. */
  void* data() const noexcept { return lines_.get(); }
  /** Number of its bytes. */
  size_t size() const noexcept { return size_ * sizeof(Line); }

 private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  size_t size_;
  std::unique_ptr<Line[]> lines_;
};

/** Owns a qn_plan. */
class Plan : public Handle<qn_plan, qn_plan_release> {
 public:
  using Handle::Handle;
  /** qn_operator_plan() with dense outputs, whose shapes follow from the inputs. */
  static Plan create(const Operator& op, std::initializer_list<qn_tensor> inputs,
                     const qn_plan_options* options = nullptr) {
    return create(op, inputs, {}, options);
  }
  /** qn_operator_plan() */
  static Plan create(const Operator& op, std::initializer_list<qn_tensor> inputs,
                     std::initializer_list<qn_tensor> outputs, const qn_plan_options* options = nullptr) {
    Plan plan;
    const qn_tensor* outs = outputs.size() > 0 ? outputs.begin() : nullptr;
    check(qn_operator_plan(op.get(), inputs.begin(), inputs.size(), outs, outputs.size(), options, plan.put()));
    return plan;
  }
  /** qn_operator_plan_chain() */
  static Plan chain(const Operator& first, const Operator& second, const qn_tensor& input,
                    const qn_tensor* output = nullptr, const qn_plan_options* options = nullptr) {
    Plan plan;
    check(qn_operator_plan_chain(first.get(), second.get(), &input, output, options, plan.put()));
    return plan;
  }
  /** qn_plan_output() */
  qn_tensor output(size_t index) const {
    qn_tensor tensor;
    check(qn_plan_output(get(), index, &tensor));
    return tensor;
  }
  /** qn_plan_workspace_size() */
  size_t workspace_size() const noexcept { return qn_plan_workspace_size(get()); }
  /** qn_plan_algorithm() */
  qn_algorithm algorithm() const noexcept { return qn_plan_algorithm(get()); }
  /** qn_plan_kernel() */
  const char* kernel() const noexcept { return qn_plan_kernel(get()); }
  /** qn_plan_macs() */
  uint64_t macs() const noexcept { return qn_plan_macs(get()); }
  /** qn_plan_run(). Takes one address for every input and output of the plan. */
  void run(std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs, const Workspace& workspace,
           const qn_parallel* parallel = nullptr) const {
    check(qn_plan_run(get(), inputs.begin(), outputs.begin(), workspace.data(), workspace.size(), parallel));
  }
};

/** Owns a qn_model. */
class Model : public Handle<qn_model, qn_model_release> {
 public:
  using Handle::Handle;
  /** qn_model_load_file() */
  static Model load_file(const char* path, const qn_model_options* options = nullptr) {
    Model model;
    check(qn_model_load_file(path, options, model.put()));
    return model;
  }
  /** qn_model_load_fd() */
  static Model load_fd(int fd, uint64_t offset = 0, uint64_t length = QN_TO_END,
                       const qn_model_options* options = nullptr) {
    Model model;
    check(qn_model_load_fd(fd, offset, length, options, model.put()));
    return model;
  }
  /** qn_model_load_memory() */
  static Model load_memory(const void* data, size_t size, const qn_model_options* options = nullptr) {
    Model model;
    check(qn_model_load_memory(data, size, options, model.put()));
    return model;
  }
  /** qn_model_input_count() */
  size_t input_count() const noexcept { return qn_model_input_count(get()); }
  /** qn_model_output_count() */
  size_t output_count() const noexcept { return qn_model_output_count(get()); }
  /** qn_model_input() */
  qn_port input(size_t index) const { return describe<qn_port>(qn_model_input, index); }
  /** qn_model_output() */
  qn_port output(size_t index) const { return describe<qn_port>(qn_model_output, index); }
  /** qn_model_state_output() */
  size_t state_output(size_t input) const noexcept { return qn_model_state_output(get(), input); }
  /** qn_model_preprocessing() */
  qn_preprocessing preprocessing(size_t index) const {
    return describe<qn_preprocessing>(qn_model_preprocessing, index);
  }

 private:
  template <class T>
  T describe(qn_status (*function)(const qn_model*, size_t, T*), size_t index) const {
    T result{};
    result.struct_size = sizeof result;
    check(function(get(), index, &result));
    return result;
  }
};

/** Owns a qn_arena. */
class Arena : public Handle<qn_arena, qn_arena_release> {
 public:
  using Handle::Handle;
  /** qn_arena_create(): makes an arena that grows. */
  static Arena create(size_t size = 0) { return create(nullptr, size); }
  /** qn_arena_create(): makes an arena in the caller's memory. */
  static Arena create(void* memory, size_t size) {
    Arena arena;
    check(qn_arena_create(memory, size, arena.put()));
    return arena;
  }
  /** qn_arena_bytes() */
  size_t bytes() const noexcept { return qn_arena_bytes(get()); }
};

/** Owns a qn_session. */
class Session : public Handle<qn_session, qn_session_release> {
 public:
  using Handle::Handle;
  /** qn_session_create() */
  static Session create(const Model& model, const qn_session_options* options = nullptr) {
    Session session;
    check(qn_session_create(model.get(), options, session.put()));
    return session;
  }
  /** qn_session_resize() */
  void resize(size_t index, std::initializer_list<size_t> shape) {
    check(qn_session_resize(get(), index, static_cast<uint32_t>(shape.size()), shape.begin()));
  }
  /** qn_session_resize_all(). Takes one description for every input of the model. */
  void resize_all(std::initializer_list<qn_tensor> inputs) { check(qn_session_resize_all(get(), inputs.begin())); }
  /** qn_session_input_tensor() */
  qn_tensor input_tensor(size_t index) const {
    qn_tensor tensor;
    check(qn_session_input_tensor(get(), index, &tensor));
    return tensor;
  }
  /** qn_session_output_tensor() */
  qn_tensor output_tensor(size_t index) const {
    qn_tensor tensor;
    check(qn_session_output_tensor(get(), index, &tensor));
    return tensor;
  }
  /** qn_session_bind_input() */
  void bind_input(size_t index, const void* data, size_t size) {
    check(qn_session_bind_input(get(), index, data, size));
  }
  /** qn_session_bind_output() */
  void bind_output(size_t index, void* data, size_t size) { check(qn_session_bind_output(get(), index, data, size)); }
  /** qn_session_run(). Takes one address for every input of the model. A cancelled run throws, too, with
   *  QN_CANCELLED. */
  void run(std::initializer_list<const void*> inputs) { run(inputs.begin()); }
  /** The same. `inputs` may be NULL if all inputs are bound. */
  void run(const void* const* inputs = nullptr) { check(qn_session_run(get(), inputs)); }
  /** qn_session_reset_states() */
  void reset_states() { check(qn_session_reset_states(get())); }
  /** qn_session_output() */
  const void* output(size_t index) const {
    const void* data = nullptr;
    check(qn_session_output(get(), index, &data));
    return data;
  }
  /** qn_session_cancel() */
  void cancel() noexcept { qn_session_cancel(get()); }
  /** qn_session_memory() */
  size_t memory() const noexcept { return qn_session_memory(get()); }
  /** qn_session_profile_count() */
  size_t profile_count() const noexcept { return qn_session_profile_count(get()); }
  /** qn_session_profile() */
  qn_profile_entry profile(size_t index) const {
    qn_profile_entry entry{};
    entry.struct_size = sizeof entry;
    check(qn_session_profile(get(), index, &entry));
    return entry;
  }
};

/** @} */

// clang-format would write "namespace qn QN_API" into the next comment.
// clang-format off
}  // namespace qn
// clang-format on
#endif
