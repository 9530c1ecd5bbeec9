// Pass recognize-hard-swish: x * clamp(x + 3, 0, 6) / 6, of several nodes, becomes one.
#include <cmath>

#include "base/status.h"
#include "graph/pass/affine.h"
#include "graph/pass/match.h"

namespace quern {
namespace {

// Finds the tensor of which `tensor` is an affine function with one scale and one bias, through all nodes that only the
// next of them reads. Returns false if there is no node.
bool read_chain(Rewriter& r, int tensor, Affine* f, int* x) {
  *x = tensor;
  bool found = false;
  while (true) {
    const Node* node = r.writer(*x);
    Affine step;
    int before;
    if (node == nullptr || !r.read_once(*x) || !read_affine(r, *node, &step, &before)) return found;
    if (found && !compose(*f, &step)) return found;
    if (!step.is_uniform()) return found;
    *f = step;
    *x = before;
    found = true;
  }
}

// Whether f(x) * x is a multiple of hard swish, and then sets `factor` to it.
bool is_hard_swish(const Affine& f, float* factor) {
  *factor = f.max;
  return f.min == 0 && std::isfinite(f.max) && f.max > 0 && is_close(f.scale[0], double{f.max} / 6) &&
         is_close(f.bias[0], double{f.max} / 2);
}

// Sets x, if `mul` is a multiple of its hard swish.
bool read_hard_swish(Rewriter& r, const Node& mul, float* factor, int* x) {
  if (mul.kind != OpKind::mul || !is_unclamped(mul) || !r.is_float(mul.outputs[0])) return false;
  for (const size_t i : {0, 1}) {
    Affine f;
    if (r.shape(mul.inputs[0]) != r.shape(mul.inputs[1]) || !read_chain(r, mul.inputs[i], &f, x)) continue;
    if (*x == mul.inputs[1 - i] && is_hard_swish(f, factor)) return true;
  }
  return false;
}

bool only_scales(const Affine& f) { return f.is_uniform() && !f.clamps() && f.bias[0] == 0; }

}  // namespace

qn_status recognize_hard_swish(Rewriter& r) {
  for (size_t i = 0; i < r.size(); ++i) {
    Node& last = r.node(i);
    if (r.removed(i)) continue;
    float factor;
    int x, y;
    if (read_hard_swish(r, last, &factor, &x) && is_close(factor, 1)) {
      last.kind = OpKind::hard_swish;
      r.set_inputs(last, {x});
      continue;
    }
    Affine f;
    if (!read_affine(r, last, &f, &y) || !only_scales(f) || !r.read_once(y)) continue;
    Node* mul = r.writer(y);
    if (mul == nullptr || !read_hard_swish(r, *mul, &factor, &x) || !is_close(double{factor} * f.scale[0], 1)) continue;
    mul->kind = OpKind::hard_swish;
    r.set_inputs(*mul, {x});
    r.take_output(*mul, y, last);
  }
  return QN_OK;
}

}  // namespace quern
