// An operator of a program's own, as in custom_operator.c, in C++17. What the node's parameters say is read once for each
// model, and an exception within becomes a status: none may leave the functions of a kind.
//
//     custom_operator MODEL.qn
#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>
#include <quern/quern.hpp>
#include <stdexcept>
#include <vector>

namespace {

// Calls body(), and returns its end as a status with a message.
template <class Body>
qn_status guarded(Body&& body) {
  try {
    body();
    return QN_OK;
  } catch (const std::invalid_argument& error) {
    return qn_fail(QN_BAD_MODEL, error.what());
  } catch (const std::exception& error) {
    return qn_fail(QN_OUT_OF_MEMORY, error.what());
  }
}

// Averages of each element and those before it in its row.
class MovingAverage {
 public:
  explicit MovingAverage(const qn_node* node) {
    std::size_t count = 0;
    const std::int64_t* window = qn_node_integers(node, "window", &count);
    if (count != 1 || *window < 1 || *window > 1000000) throw std::invalid_argument("a moving average has no window");
    window_ = static_cast<std::size_t>(*window);
  }

  void run(const float* x, float* y, std::size_t columns, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t used = std::min(i % columns + 1, window_);
      y[i] = std::accumulate(x + i + 1 - used, x + i + 1, 0.0f) / static_cast<float>(used);
    }
  }

 private:
  std::size_t window_;
};

qn_status infer(const qn_node* node, const qn_operand* inputs, std::size_t, qn_tensor* outputs, std::size_t) {
  return guarded([=] {
    MovingAverage checked(node);
    const qn_tensor& x = inputs[0].tensor;
    if (x.type != QN_F32 || outputs[0].type != QN_F32 || x.rank == 0)
      throw std::invalid_argument("moving averages are of rows of f32");
    outputs[0].rank = x.rank;
    std::copy_n(x.shape, x.rank, outputs[0].shape);
  });
}

qn_status create(const qn_node* node, const qn_operand*, std::size_t, void** made) {
  return guarded([=] { *made = new MovingAverage(node); });
}

void release(void* made) { delete static_cast<MovingAverage*>(made); }

qn_status run(const qn_node_run* run) {
  const qn_tensor& tensor = run->inputs[0].tensor;
  static_cast<const MovingAverage*>(run->made)->run(
      static_cast<const float*>(run->inputs[0].data), static_cast<float*>(run->outputs[0].data),
      tensor.shape[tensor.rank - 1], qn_tensor_bytes(&tensor) / sizeof(float));
  return QN_OK;
}

void register_operators() {
  static qn_kind kind = {};  // it must stay
  kind.struct_size = sizeof kind;
  kind.name = "example_moving_average";
  kind.min_inputs = kind.max_inputs = kind.max_outputs = 1;
  kind.infer = infer;
  kind.create = create;
  kind.release = release;
  kind.run = run;
  qn::check(qn_register_kinds(&kind, 1));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: custom_operator MODEL.qn");
  register_operators();
  const qn::Model model = qn::Model::load_file(argv[1]);
  qn::Session session = qn::Session::create(model);
  const std::vector<float> x = {2, 4, 6, 8, 1, -1, 1, -1};
  const std::vector<float> expected = {2, 3, 4, 6, 1, 0, 1.0f / 3, -1.0f / 3};  // a window of 3
  session.run({x.data()});
  const auto* y = static_cast<const float*>(session.output(0));
  for (std::size_t i = 0; i < x.size(); ++i) std::cout << y[i] << (i % 4 == 3 ? '\n' : ' ');
  return !std::equal(expected.begin(), expected.end(), y);
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
