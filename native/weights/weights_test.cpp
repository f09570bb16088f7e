// Lists of tensors against a model, and what is read of them. Linked and run by test/native/programs.test.ts with a
// folder of its own.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include "../expect_fixture.h"
#include "weight_files.h"

using namespace anneal;
using namespace anneal::weights;

namespace {

model::ModelSpec small_model() {
  model::ModelSpec m;
  m.hidden = 4, m.vocab = 6, m.max_positions = 8, m.tied_head = true;
  m.layers.resize(1);
  m.layers[0].attention.heads = m.layers[0].attention.kv_heads = 1, m.layers[0].attention.head_dim = 4;
  m.layers[0].feed_forward.intermediate = 4;
  return m;
}

// All tensors of the model at the beginning of one file: what is refused is refused before it is opened.
std::vector<StoredTensor> tensors_of(const std::string& file, const std::string& type) {
  std::vector<StoredTensor> list;
  for (const model::TensorShape& t : model::weight_tensors(small_model()))
    list.push_back({t.name, file, type, 0, t.elements() * (type == "F32" ? 4 : 2),
                    t.cols ? std::vector<int64_t>{t.rows, t.cols} : std::vector<int64_t>{t.rows}});
  return list;
}

std::string refused(const std::function<void(std::vector<StoredTensor>&)>& change) {
  auto list = tensors_of("nowhere", "F32");
  change(list);
  try {
    WeightFiles(list, small_model());
  } catch (const UnusableTensor& unusable) {
    return std::to_string(unusable.entry) + " " + unusable.problem;
  }
  return "";
}

void checks_lists() {
  using List = std::vector<StoredTensor>&;
  expect(refused([](List) {}).empty(), "a list as it should be");
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  expect(has(refused([](List list) { list[1].name = "x"; }), "1 names \"x\", which"), "a tensor that is none");
  expect(has(refused([](List list) { list[2].type = "I8"; }), "2 has dtype \"I8\""), "numbers of another kind");
  expect(has(refused([](List list) {
               list[0].shape = {4, 6};
             }),
             "0 (model.embed_tokens.weight) has another shape"),
         "another shape");
  expect(has(refused([](List list) { list[0].bytes--; }), "0 (model.embed_tokens.weight) has a number of bytes"),
         "too few bytes");
  expect(has(refused([](List list) { list.push_back(list[0]); }), "a second time"), "a tensor twice");
  expect(has(refused([](List list) { list.pop_back(); }), "-1 lacks"), "a tensor missing");
}

template <class T> std::string file_of(const std::string& folder, const std::vector<T>& numbers) {
  const std::string path = folder + "/weights";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers.data()), std::streamsize(numbers.size() * sizeof(T)));
  return path;
}

std::vector<float> rows_of(const std::string& file, const std::string& type, int64_t row0, int64_t rows) {
  WeightFiles files(tensors_of(file, type), small_model());
  files.open();
  std::vector<float> out(size_t(rows) * 4);
  files.read("model.embed_tokens.weight", row0, rows, out.data());
  return out;
}

std::string fails(const std::function<void()>& read) {
  try {
    read();
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

void reads(const std::string& folder) {
  std::vector<float> numbers(24);
  for (size_t i = 0; i < 24; i++) numbers[i] = float(i) / 3;
  std::string file = file_of(folder, numbers);
  expect(rows_of(file, "F32", 2, 3) == std::vector<float>(numbers.begin() + 8, numbers.begin() + 20),
         "rows of float32");
  numbers[9] = NAN;
  file = file_of(folder, numbers);
  expect(fails([&] { rows_of(file, "F32", 2, 1); }).find("not finite") != std::string::npos, "a number that is none");
  expect(fails([&] { rows_of(file, "F32", 0, 1); }).empty(), "beside numbers that are");
  file_of(folder, std::vector<float>(7, 1));
  expect(!fails([&] { rows_of(file, "F32", 0, 2); }).empty(), "a file that ends early");
  expect(!fails([&] { rows_of(folder, "F32", 0, 1); }).empty(), "a folder");
  expect(!fails([&] { rows_of(folder + "/nothing", "F32", 0, 1); }).empty(), "no file");

  // One, the largest, the smallest subnormal and a middle one of IEEE's half precision; minus zero.
  std::vector<uint16_t> halves(24, 0x3c00);
  halves[1] = 0x7bff, halves[2] = 0x0001, halves[3] = 0x83ff, halves[4] = 0x8000;
  file = file_of(folder, halves);
  const std::vector<float> wide = rows_of(file, "F16", 0, 2);
  expect(wide[0] == 1 && wide[1] == 65504 && wide[2] == std::ldexp(1.0f, -24) && wide[3] == -std::ldexp(1023.0f, -24) &&
             wide[4] == 0 && std::signbit(wide[4]),
         "half precision");
  expect(rows_of(file_of(folder, std::vector<uint16_t>(24, 0xc040)), "BF16", 5, 1) == std::vector<float>(4, -3),
         "bfloat16");
}

// Rows of a head whose rotary pairs stand side by side in the file.
void reads_interleaved_heads(const std::string& folder) {
  std::vector<float> numbers(24);
  for (size_t i = 0; i < 24; i++) numbers[i] = float(i);
  auto list = tensors_of(file_of(folder, numbers), "F32");
  for (StoredTensor& tensor : list)
    if (tensor.name.ends_with("q_proj.weight")) tensor.interleaved_heads = 1;
  WeightFiles files(list, small_model());
  files.open();
  std::vector<float> out(16);
  files.read("model.layers.0.self_attn.q_proj.weight", 0, 4, out.data());
  expect(out == std::vector<float>{0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}, "rows of interleaved heads");
  files.read("model.layers.0.self_attn.q_proj.weight", 1, 2, out.data());
  out.resize(8);
  expect(out == std::vector<float>{8, 9, 10, 11, 4, 5, 6, 7}, "some of them");
  expect(refused([](std::vector<StoredTensor>& l) { l[1].interleaved_heads = 3; }).find("interleaved") !=
             std::string::npos,
         "heads that do not divide the rows");
}

}  // namespace

int main(int, char** argv) {
  checks_lists();
  reads(argv[1]);
  reads_interleaved_heads(argv[1]);
  return report_failures();
}
