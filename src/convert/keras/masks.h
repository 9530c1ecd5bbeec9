// Masks: which elements count. Those of sequences have a bool for each step of each sequence.
#pragma once

#include "convert/keras/node.h"

namespace quern::keras {

// The value as bools: which elements are not 0.
Value as_bools(const KerasNode& node, const Value& x);
Value negated(const KerasNode& node, const Value& mask);
Value both(const KerasNode& node, const Value& a, const Value& b);
Value either(const KerasNode& node, const Value& a, const Value& b);
// Bools that are all true, of the shape of x.
Value all_true(const KerasNode& node, const Value& x);
// Whether any, or each, element of the last dimension is true.
Value any_of_last(const KerasNode& node, const Value& mask);
Value all_of_last(const KerasNode& node, const Value& mask);

// x where the mask is true, and elsewhere the number. The mask has a dimension for each of x, of 1 or the same size.
View kept(const KerasNode& node, const Value& mask, const View& x, float otherwise);
// The same where the mask lacks the last dimensions of x.
View kept_rows(const KerasNode& node, const Value& mask, const View& x, float otherwise);
// The same with the elements of a tensor in the place of the number.
View chosen_rows(const KerasNode& node, const Value& mask, const View& x, const View& otherwise);
// x, and where the mask is not true, x plus the number.
View lowered(const KerasNode& node, const Value& mask, const View& x, float by);

// Gives the result of a layer of several inputs the mask that Keras gives a sum of them.
void merge_masks(const KerasNode& node);

}  // namespace quern::keras
