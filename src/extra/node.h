// What the kinds of libquern-extra share: a C++ form of quern/kind.h. The functions of a kind report what is wrong by
// Node::fail(), which throws; kind() makes statuses of what they throw.
#pragma once

#include <quern/kind.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/needs.h"
#include "extra/shape.h"

namespace quern::extra {

// ---- types

// The C++ type of the elements of a tensor is `typename decltype(tag)::type`, in visit(tag). Booleans are bool.
template <class T>
struct Tag {
  using type = T;
};
template <class Visit>
decltype(auto) with_type(qn_type type, Visit&& visit) {
  switch (type) {
    case QN_S64: return visit(Tag<int64_t>());
    case QN_S32: return visit(Tag<int32_t>());
    case QN_S8: return visit(Tag<int8_t>());
    case QN_U8: return visit(Tag<uint8_t>());
    case QN_BOOL: return visit(Tag<bool>());
    default: return visit(Tag<float>());
  }
}

// ---- nodes

// A node with its inputs. Dimensions and numbers come from files: whatever is not as the kind demands is a fault.
class Node {
 public:
  Node(const qn_node* node, const qn_operand* inputs, size_t count) : node_(node), inputs_(inputs, count) {}

  [[noreturn]] void fail(const std::string& what) const { throw Fault{QN_BAD_MODEL, what}; }

  // Parameters. `otherwise` is the value of one that the node does not have.
  std::span<const int64_t> integers(const char* name) const;
  int64_t integer(const char* name, int64_t otherwise) const;
  std::span<const float> floats(const char* name) const;
  float number(const char* name, float otherwise) const;

  size_t input_count() const { return inputs_.size(); }
  bool has(size_t input) const { return input < inputs_.size() && inputs_[input].tensor.type != 0; }
  const qn_tensor& tensor(size_t input) const { return inputs_[input].tensor; }
  qn_type type(size_t input) const { return tensor(input).type; }
  Shape shape(size_t input) const { return {tensor(input).shape, tensor(input).shape + tensor(input).rank}; }
  size_t rank(size_t input) const { return tensor(input).rank; }
  bool is_known(size_t input) const { return inputs_[input].data != nullptr; }
  template <class T>
  const T* data(size_t input) const {
    return static_cast<const T*>(inputs_[input].data);
  }
  // The elements of an input of s64 or s32.
  std::vector<int64_t> values(size_t input) const;

  // Fails unless the input has this type.
  void expect(size_t input, qn_type type) const;
  // Returns the axis as a number from 0 on; `axis` may count from the end.
  size_t axis(int64_t axis, size_t rank) const;
  // Fails unless the input has this shape.
  void expect_shape(size_t input, const Shape& wanted) const;
  // The product of two sizes, which must be a size.
  size_t product(size_t a, size_t b) const;
  // The shape to which two shapes are broadcast.
  Shape broadcast(const Shape& a, const Shape& b) const;

 protected:
  void check_size(const Shape& shape) const;

  const qn_node* node_;
  std::span<const qn_operand> inputs_;
};

// A node whose outputs are to be described.
class Inference : public Node {
 public:
  Inference(const qn_node* node, const qn_operand* inputs, size_t count, qn_tensor* outputs, size_t output_count)
      : Node(node, inputs, count), outputs_(outputs, output_count) {}

  size_t output_count() const { return outputs_.size(); }
  // The type that the graph says output `index` has.
  qn_type wanted(size_t index) const { return outputs_[index].type; }
  void set(size_t index, qn_type type, const Shape& shape);

 private:
  std::span<qn_tensor> outputs_;
};

// A node that runs.
class Run : public Node {
 public:
  explicit Run(const qn_node_run& run) : Node(run.node, run.inputs, run.input_count), run_(run) {}

  size_t output_count() const { return run_.output_count; }
  // Whether somebody needs output `index`.
  bool wants(size_t index) const { return index < run_.output_count && run_.outputs[index].tensor.type != 0; }
  qn_type output_type(size_t index) const { return run_.outputs[index].tensor.type; }
  Shape output_shape(size_t index) const {
    const qn_tensor& tensor = run_.outputs[index].tensor;
    return {tensor.shape, tensor.shape + tensor.rank};
  }
  template <class T>
  T* output(size_t index) const {
    return static_cast<T*>(run_.outputs[index].data);
  }
  // For kinds that are sized by their runs: makes an output of this shape. Fails if the graph has another type for it.
  void* allocate(size_t index, qn_type type, const Shape& shape) const;
  template <class T>
  T* workspace() const {
    return static_cast<T*>(run_.workspace);
  }
  void* planned() const { return run_.planned; }
  void* made() const { return run_.made; }
  const qn_parallel* parallel() const { return run_.parallel; }

 private:
  const qn_node_run& run_;
};

inline bool is_cancelled(const qn_parallel* parallel) {
  return parallel != nullptr && parallel->cancelled != nullptr && parallel->cancelled(parallel->context) != 0;
}
// As long as it lives, look() asks `parallel` on this thread; NULL: it asks nobody.
class Watched {
 public:
  explicit Watched(const qn_parallel* parallel);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  const qn_parallel* const before_;
};

// Calls body() and makes a status of what it throws.
template <class Body>
qn_status guarded(Body&& body) noexcept {
  try {
    body();
    return QN_OK;
  } catch (const Fault& fault) {
    return qn_fail(fault.status, fault.what.c_str());
  } catch (const std::bad_alloc&) {
    return qn_fail(QN_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {  // more elements than a vector can have
    return qn_fail(QN_OUT_OF_MEMORY, "out of memory");
  }
}

struct Inputs {
  uint32_t min, max;
};

// Describes a kind without create() and plan(). Its functions are `void infer(Inference&)` and `void run(const Run&)`.
template <auto infer, auto run>
constexpr qn_kind kind(const char* name, Inputs inputs, uint32_t outputs, uint32_t flags = 0, uint64_t values = 0) {
  qn_kind kind = {};
  kind.struct_size = sizeof kind;
  kind.name = name;
  kind.min_inputs = inputs.min;
  kind.max_inputs = inputs.max;
  kind.max_outputs = outputs;
  kind.flags = flags;
  kind.value_inputs = values;
  kind.infer = [](const qn_node* node, const qn_operand* operands, size_t count, qn_tensor* to, size_t to_count) {
    return guarded([&] {
      Inference inference(node, operands, count, to, to_count);
      infer(inference);
    });
  };
  kind.run = [](const qn_node_run* of) {
    return guarded([&] {
      const Watched watched(of->parallel);
      run(Run(*of));
    });
  };
  return kind;
}

// A run function that does nothing for outputs without elements: hostile shapes may have a dimension of 0 and others
// through which loops would not end.
template <auto run>
void unless_empty(const Run& node) {
  for (size_t i = 0; i < node.output_count(); ++i) {
    if (node.wants(i) && count(node.output_shape(i)) != 0) return run(node);
  }
}

// Adds to a kind what it does once per model, `std::unique_ptr<Made> create(const Node&)`, which may return null, and once
// per shape: `std::unique_ptr<Planned> plan(const Node&, const Made*, size_t tasks, size_t* workspace)`.
template <class Made, class Planned, auto create, auto plan>
constexpr qn_kind planned(qn_kind kind) {
  kind.create = [](const qn_node* node, const qn_operand* inputs, size_t count, void** made) {
    return guarded([&] { *made = create(Node(node, inputs, count)).release(); });
  };
  kind.release = [](void* made) { delete static_cast<Made*>(made); };
  kind.plan = [](const qn_node* node, void* made, const qn_operand* inputs, size_t count, const qn_operand*, size_t,
                 size_t tasks, void** planned, size_t* workspace) {
    return guarded([&] {
      *workspace = 0;
      *planned = plan(Node(node, inputs, count), static_cast<const Made*>(made), tasks, workspace).release();
    });
  };
  kind.release_plan = [](void* planned) { delete static_cast<Planned*>(planned); };
  return kind;
}

using Kinds = std::span<const qn_kind>;

// The rows of a file's table that this build contains: all, unless it is trimmed to a list (base/needs.h). Nothing refers
// to the functions of the others then, and the linker leaves them out.
template <const auto& table>
Kinds needed() {
  if constexpr (trimmed) {
    constexpr auto is_needed = [](const qn_kind& kind) { return has_kind(kind.name); };
    static constexpr auto kept = [&] {
      std::array<qn_kind, std::ranges::count_if(table, is_needed)> rows = {};
      std::ranges::copy_if(table, rows.begin(), is_needed);
      return rows;
    }();
    return kept;
  } else {
    return table;
  }
}

// The kinds of each file.
Kinds along_kinds();
Kinds binary_kinds();
Kinds convert_kinds();
Kinds elementwise_kinds();
Kinds integer_kinds();
Kinds reduce_kinds();
Kinds shape_kinds();
Kinds moving_kinds();
Kinds choosing_kinds();
Kinds selecting_kinds();
Kinds making_kinds();
Kinds product_kinds();
Kinds einsum_kinds();
Kinds convolution_kinds();
Kinds normalization_kinds();
Kinds attention_kinds();
Kinds recurrent_kinds();
Kinds image_kinds();
Kinds pool_kinds();
Kinds sampling_kinds();
Kinds region_kinds();
Kinds detection_kinds();
Kinds anchor_kinds();
Kinds gram_kinds();
Kinds spectrum_kinds();
// Those of all files.
std::vector<qn_kind> all_kinds();

}  // namespace quern::extra
