#include "named_tensors.h"

#include <unordered_map>

namespace anneal::addon {

TensorValues named_tensors(const Argument& list, const std::vector<model::TensorShape>& expected) {
  std::unordered_map<std::string, size_t> index;
  for (size_t i = 0; i < expected.size(); ++i) index.emplace(expected[i].name, i);
  TensorValues values(expected.size());
  std::vector<bool> given(expected.size());
  const uint32_t count = list.array_length(1 << 20);
  for (uint32_t i = 0; i < count; ++i)
    list.element(i, [&](Argument entry) {
      entry.object();
      const auto name = entry.field("name", [](Argument a) { return a.text(512); });
      const Path path(name.c_str());
      const auto found = index.find(name);
      if (found == index.end()) invalid(path, "is no tensor of this model");
      const auto& tensor = expected[found->second];
      if (given[found->second]) invalid(path, "is given twice");
      given[found->second] = true;
      std::vector<int64_t> shape;
      entry.field("shape", [&](Argument a) {
        for (uint32_t d = 0, n = a.array_length(8); d < n; ++d)
          shape.push_back(a.element(d, [](Argument x) { return x.integer(0, int64_t(1) << 40); }));
      });
      const std::vector<int64_t> wanted = tensor.dimensions();
      auto& data = values[found->second];
      data = entry.field("data", [&](Argument a) { return Argument(a.js(), a.value(), path).finite_floats(); });
      if (shape != wanted || int64_t(data.size()) != tensor.elements())
        invalid(path, "must have the shape [" + std::to_string(tensor.rows) + (tensor.convolution ? ", 1" : "") +
                          (tensor.cols ? ", " + std::to_string(tensor.cols) : "") + "]");
    });
  for (size_t i = 0; i < expected.size(); ++i)
    if (!given[i]) invalid(Path(expected[i].name.c_str()), "is missing");
  return values;
}

backends::AdapterValues adapter_values(const model::ModelSpec& model, const model::LoraSpec& spec,
                                       const TensorValues& values) {
  return [places = model::AdapterPlaces(model, spec), &values](int layer, int p, bool b) {
    const model::AdapterPlace place = places.of(layer, p, b);
    return values.at(place.tensor).data() + place.element;
  };
}

napi_value named_tensors_out(Js js, const std::vector<model::TensorShape>& tensors, const TensorValues* values) {
  napi_value list = js.array(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& tensor = tensors[i];
    const std::vector<int64_t> dimensions = tensor.dimensions();
    napi_value entry = js.object(), shape = js.array(dimensions.size());
    for (size_t d = 0; d < dimensions.size(); ++d) js.set(shape, uint32_t(d), js.number(double(dimensions[d])));
    js.set(entry, "name", js.text(tensor.name));
    js.set(entry, "shape", shape);
    if (values) js.set(entry, "data", js.floats((*values)[i].data(), (*values)[i].size()));
    js.set(list, uint32_t(i), entry);
  }
  return list;
}

}  // namespace anneal::addon
