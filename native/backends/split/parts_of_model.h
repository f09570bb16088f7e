// A model's first and last layers, each as a model.
#pragma once
#include <string>

#include "../../model/spec.h"

namespace anneal::split {

// The first `layers` layers, with the embedding; and the last ones, with the head in the place of the embedding.
model::ModelSpec first_layers(const model::ModelSpec&, int layers);
model::ModelSpec last_layers(const model::ModelSpec&, int layers);
// The name in the whole model of a tensor of its last layers, before which `skipped` stand.
std::string name_in_whole(const model::ModelSpec& whole, int skipped, const std::string& name);

}  // namespace anneal::split
