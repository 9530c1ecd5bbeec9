// Loops and conditionals of TensorFlow's version 1, as the functional ones that came later.
#pragma once

#include "convert/tensorflow/functions.h"

namespace quern::tensorflow {

// Adds a While for each frame whose Exit nodes have the structure of tf.while_loop, and an If for the Merge nodes of each
// tf.cond; their bodies become functions. These Exit and Merge nodes pass on their results from now on. All other nodes
// stay, so that tensors within a loop can still be inputs and outputs. What has no such structure stays, too,
// and so does what comes after too many copies: if an output needs it, the importer refuses it by name.
void raise_control_flow(schema::GraphDef* graph, Functions* functions);

}  // namespace quern::tensorflow
