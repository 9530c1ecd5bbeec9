// Layers that go through sequences step by step.
#pragma once

#include "convert/keras/node.h"

namespace quern::keras {

struct SequenceRun {
  bool backwards;     // the last step comes first
  bool by_time;       // the results of all steps come in the order of time, not in that in which they are made
  bool zeros;         // steps that the mask leaves out give 0, not the result of the step before
  const Value* mask;  // [batch, time]; null: all steps count
};

// `y`: the hidden states of all steps, or the last one, as the layer says. `states`: after the last step.
struct Outcome {
  View y;
  Values states;
};

bool is_recurrent(const std::string& type);
Outcome run_sequence(const KerasNode& node, const SequenceRun& run);
Values recurrent(const KerasNode& node);  // of all of these layers

// conv_lstm.cc: `spatial` is the number of dimensions of an image, 0 for other types.
size_t spatial_of_conv_lstm(const std::string& type);
Outcome run_conv_lstm(const KerasNode& node, size_t spatial, const SequenceRun& run);

// Reads the fields that all have.
void read_sequence_fields(const KerasNode& node, size_t states);

}  // namespace quern::keras
