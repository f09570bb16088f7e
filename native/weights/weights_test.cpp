// Lists of tensors against a model, and what is read of them. Linked and run by test/native/programs.test.ts with a
// folder of its own, and that of packed matrices.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

#include "../expect_fixture.h"
#include "../quantization/blocks.h"
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
std::vector<StoredTensor> tensors_of(const std::string& file, const std::string& type,
                                     const model::ModelSpec& spec = small_model()) {
  std::vector<StoredTensor> list;
  for (const model::TensorShape& t : model::weight_tensors(spec))
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
  expect(has(refused([](List list) { list[0].shape = {4, 6}; }), "0 (model.embed_tokens.weight) has another shape"),
         "another shape");
  expect(has(refused([](List list) { list[0].bytes--; }), "0 (model.embed_tokens.weight) has a number of bytes"),
         "too few bytes");
  expect(has(refused([](List list) { list.push_back(list[0]); }), "a second time"), "a tensor twice");
  expect(has(refused([](List list) { list.pop_back(); }), "-1 lacks"), "a tensor missing");
  model::ModelSpec spec = small_model();
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  for (const model::QuantizedFormat& format : model::kQuantizedFormats) {
    spec.quantized[name] = format.format;
    std::string problem;
    try {
      WeightFiles(tensors_of("nowhere", "F32"), spec);
    } catch (const UnusableTensor& unusable) {
      problem = unusable.problem;
    }
    expect(has(problem, "which is read only, and not made") != quantization::can_quantize(format.format),
           "a format that nothing makes of floats");
  }
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

// As it lies in the file, denormals as zeros of their sign.
void reads_words(const std::string& folder) {
  std::vector<uint16_t> words(24, 0xc040);
  words[8] = 0x0001, words[9] = 0x807f, words[10] = 0x0080, words[11] = 0xff7f;
  const auto read = [&](int64_t row0, std::vector<uint16_t>& out) {
    WeightFiles files(tensors_of(file_of(folder, words), "BF16"), small_model());
    files.open();
    const std::string name = "model.embed_tokens.weight";
    expect(files.stored(name) == model::TensorFormat::bf16, "stored as bfloat16");
    files.blocks(name, row0, 2, reinterpret_cast<uint8_t*>(out.data()));
  };
  std::vector<uint16_t> out(8);
  read(1, out);
  expect(out == std::vector<uint16_t>{0xc040, 0xc040, 0xc040, 0xc040, 0, 0x8000, 0x0080, 0xff7f}, "words of bfloat16");
  for (const uint16_t none : {0x7f80, 0xff80, 0x7fc0}) {
    words[7] = none;
    expect(fails([&] { read(1, out); }).find("not finite") != std::string::npos, "a word that is no number");
    expect(fails([&] { read(2, out); }).empty(), "beside words that are");
  }
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

// A matrix that lies column by column, by turns with another, and every second number of a vector.
void reads_strides(const std::string& folder) {
  model::ModelSpec spec = small_model();
  const auto entry = [](std::vector<StoredTensor>& list, const std::string& name) -> StoredTensor& {
    return *std::find_if(list.begin(), list.end(), [&](const StoredTensor& t) { return t.name == name; });
  };
  const std::string matrix = "model.layers.0.self_attn.q_proj.weight", vector = "model.norm.weight";
  const auto opened = [&](const std::string& type, const auto& numbers, size_t width) {
    auto list = tensors_of(file_of(folder, numbers), type, spec);
    StoredTensor& turned = entry(list, matrix);
    turned.offset = int64_t(width), turned.bytes = int64_t(32 * width), turned.strides = Strides{1, 2, 8};
    StoredTensor& second = entry(list, vector);
    second.offset = 0, second.bytes = int64_t(8 * width), second.strides = Strides{1, 0, 2};
    WeightFiles files(list, spec);
    files.open();
    return files;
  };
  std::vector<float> numbers(40);
  for (size_t i = 0; i < 40; i++) numbers[i] = float(i);
  const WeightFiles files = opened("F32", numbers, 4);
  std::vector<float> out(16);
  files.read(matrix, 0, 4, out.data());
  expect(out == std::vector<float>{2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30, 8, 16, 24, 32}, "turned rows");
  out.resize(4);
  files.read(matrix, 2, 1, out.data());
  expect(out == std::vector<float>{6, 14, 22, 30}, "one of them");
  files.read(vector, 0, 1, out.data());
  expect(out == std::vector<float>{1, 3, 5, 7}, "every second number");

  std::vector<uint16_t> words(40);
  for (size_t i = 0; i < 40; i++) words[i] = uint16_t(0x3f80 + i);
  std::vector<uint16_t> read(4);
  const WeightFiles halves = opened("BF16", words, 2);
  halves.blocks(matrix, 1, 1, reinterpret_cast<uint8_t*>(read.data()));
  expect(read == std::vector<uint16_t>{0x3f84, 0x3f8c, 0x3f94, 0x3f9c}, "turned words");
  words[12] = 0x7f80;
  const std::string none = fails([&] { opened("BF16", words, 2).read(matrix, 1, 1, out.data()); });
  expect(none.find("not finite") != std::string::npos, "a turned number that is none");

  const auto problem = [&](const Strides& strides) {
    return refused([&](std::vector<StoredTensor>& l) { entry(l, matrix).strides = strides; });
  };
  for (const Strides& strides :
       {Strides{1, 4, 1}, Strides{-1, 4, 1}, Strides{0, 1, -4}, Strides{0, 1, int64_t(1) << 50}})
    expect(problem(strides).find("leave its bytes") != std::string::npos, "strides that leave the bytes");
  expect(problem({0, 1, 4}).empty(), "strides of the bytes");
  expect(refused([&](std::vector<StoredTensor>& l) {
           entry(l, matrix).strides = Strides{0, 1, 4}, entry(l, matrix).interleaved_heads = 1;
         }).find("model's order") != std::string::npos,
         "strides of interleaved heads");
}

// Codes of MXFP4 and scales that lie apart, every second row of them.
void reads_scales_apart(const std::string& folder) {
  model::ModelSpec spec = small_model();
  spec.hidden = 64;
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  spec.quantized[name] = model::TensorFormat::mxfp4;
  const auto entry = [&](std::vector<StoredTensor>& list) -> StoredTensor& {
    return *std::find_if(list.begin(), list.end(), [&](const StoredTensor& t) { return t.name == name; });
  };
  const int64_t rows = model::projection_shape(spec, 0, model::kK).outputs, stored_rows = 2 * rows;
  // Behind the codes the scales. Number i of row r has the code (i + r) % 16.
  std::vector<uint8_t> bytes(size_t(stored_rows * (32 + 2)));
  for (int64_t r = 0; r < stored_rows; r++) {
    for (int64_t i = 0; i < 64; i++) bytes[size_t(r * 32 + i / 2)] |= uint8_t((i + r) % 16 << (i % 2 * 4));
    for (int64_t b = 0; b < 2; b++) bytes[size_t(stored_rows * 32 + r * 2 + b)] = uint8_t(127 + r - b);
  }
  const auto list_of = [&](const std::string& path) {
    auto list = tensors_of(path, "F32", spec);
    StoredTensor& matrix = entry(list);
    matrix.type = "MXFP4", matrix.offset = 0, matrix.bytes = stored_rows * 32;
    matrix.apart = {{path, "U8", stored_rows * 32, stored_rows * 2, nullptr}, 1, 2};
    return list;
  };
  const auto read = [&](int64_t row0, int64_t count) {
    WeightFiles files(list_of(file_of(folder, bytes)), spec);
    files.open();
    std::vector<float> out(size_t(count * 64));
    files.read(name, row0, count, out.data());
    return out;
  };
  constexpr float kNumbers[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  const std::vector<float> all = read(0, rows);
  bool right = true;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < 64; i++) {
      const int64_t r = 1 + 2 * row;
      right &= all[size_t(row * 64 + i)] == std::ldexp(kNumbers[(i + r) % 16], int(r - i / 32));
    }
  expect(right, "codes with scales apart");
  expect(read(1, 1) == std::vector<float>(all.begin() + 64, all.begin() + 128), "one row of them");
  bytes[size_t(stored_rows * 32 + 3 * 2)] = 255;
  expect(fails([&] { read(1, 1); }).find("scales that are not finite") != std::string::npos, "a scale that is none");
  const auto problem = [&](const std::function<void(StoredTensor&)>& change) -> std::string {
    auto list = list_of("nowhere");
    change(entry(list));
    try {
      WeightFiles(list, spec);
    } catch (const UnusableTensor& unusable) {
      return unusable.problem;
    }
    return "";
  };
  expect(problem([](StoredTensor&) {}).empty(), "scales apart are taken");
  expect(problem([](StoredTensor& t) { t.apart->first = 2; }).find("leave its codes") != std::string::npos, "too far");
  expect(problem([](StoredTensor& t) { t.apart->step = 0; }).find("leave its codes") != std::string::npos, "no step");
  expect(problem([](StoredTensor& t) { t.apart->scales.bytes--; }).find("other scales") != std::string::npos, "fewer");
  expect(problem([](StoredTensor& t) { t.apart->scales.type = "F16"; }).find("no U8") != std::string::npos, "halves");
  expect(refused([](std::vector<StoredTensor>& l) {
           l[0].apart = {{"nowhere", "U8", 0, 0, nullptr}, 0, 1};
         }).find("only MXFP4") != std::string::npos,
         "floats with scales apart");
}

// Two groups of two heads, as rows, columns and numbers of a vector.
void reads_tiled_heads(const std::string& folder) {
  model::ModelSpec spec = small_model();
  spec.vocab = 10;
  const auto entry = [](std::vector<StoredTensor>& list, const std::string& name) -> StoredTensor& {
    return *std::find_if(list.begin(), list.end(), [&](const StoredTensor& t) { return t.name == name; });
  };
  const std::string rows = "model.embed_tokens.weight", columns = "model.layers.0.self_attn.o_proj.weight",
                    vector = "model.norm.weight";
  const auto opened = [&](const std::string& type, const auto& numbers) {
    auto list = tensors_of(file_of(folder, numbers), type, spec);
    entry(list, rows).tiled_heads = {4, 2, 2, 2, false};
    entry(list, columns).tiled_heads = {4, 2, 1, 0, true};
    entry(list, vector).tiled_heads = {4, 2, 1, 0, false};
    WeightFiles files(list, spec);
    files.open();
    return files;
  };
  std::vector<float> numbers(40);
  for (size_t i = 0; i < 40; i++) numbers[i] = float(i);
  const WeightFiles files = opened("F32", numbers);
  const auto read = [&](const std::string& name, int64_t row0, int64_t count) {
    std::vector<float> out(size_t(count) * 4);
    files.read(name, row0, count, out.data());
    return out;
  };
  std::vector<float> firsts;
  for (int64_t row = 0; row < 10; row++) firsts.push_back(read(rows, row, 1)[0] / 4);
  expect(firsts == std::vector<float>{0, 1, 2, 3, 6, 7, 4, 5, 8, 9}, "rows of tiled heads, one by one");
  const std::vector<float> some = read(rows, 1, 8);
  for (size_t row = 0; row < 8; row++)
    for (size_t i = 0; i < 4; i++)
      expect(some[row * 4 + i] == firsts[row + 1] * 4 + float(i), "rows of tiled heads from the middle of one");
  expect(read(columns, 1, 2) == std::vector<float>{4, 6, 5, 7, 8, 10, 9, 11}, "columns of tiled heads");
  expect(read(vector, 0, 1) == std::vector<float>{0, 2, 1, 3}, "numbers of tiled heads");

  std::vector<uint16_t> words(40, 0x3f80);
  words[5] = 0x4000, words[6] = 0x4040, words[7] = 0x4080;
  std::vector<uint16_t> out(4);
  opened("BF16", words).blocks(columns, 1, 1, reinterpret_cast<uint8_t*>(out.data()));
  expect(out == std::vector<uint16_t>{0x3f80, 0x4040, 0x4000, 0x4080}, "words of tiled heads");

  const auto problem = [&](size_t tensor, const TiledHeads& tiled) {
    return refused([&](std::vector<StoredTensor>& l) { l[tensor].tiled_heads = tiled; });
  };
  expect(problem(1, {4, 3, 1, 0, true}).find("groups of as many") != std::string::npos, "groups that are not alike");
  expect(problem(1, {2, 2, 1, 0, true}).find("another size") != std::string::npos, "fewer columns than there are");
  expect(problem(1, {2, 2, 1, 2, true}).find("before tiled heads") != std::string::npos, "columns before the heads");
}

// What a delta rule's decay is stored as.
void reads_negated_exponentials(const std::string& folder) {
  const auto read = [&](float number) {
    std::vector<float> numbers(24, -1);
    numbers[1] = number;
    auto list = tensors_of(file_of(folder, numbers), "F32");
    for (StoredTensor& tensor : list) tensor.negated_exp = tensor.name == "model.norm.weight";
    WeightFiles files(list, small_model());
    files.open();
    std::vector<float> out(4);
    files.read("model.norm.weight", 0, 1, out.data());
    return out;
  };
  expect(read(-std::exp(2.5f)) == std::vector<float>{0, 2.5, 0, 0}, "exponents");
  for (const float none : {0.0f, -0.0f, 1.0f})
    expect(fails([&] { read(none); }).find("not below zero") != std::string::npos, "a number that is no exponential");
  expect(
      refused([](std::vector<StoredTensor>& l) { l[1].negated_exp = true; }).find("is a matrix") != std::string::npos,
      "a matrix of exponentials");
}

std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

// Matrices that other programs packed, see test/reference/packed/make.py: the numbers they stand for, whole and by
// rows.
void reads_packed(const std::string& folder) {
  std::ifstream cases(folder + "/cases.txt");
  int count = 0;
  for (std::string name, packing, format; cases >> name >> packing >> format; count++) {
    PackedMatrix m;
    const std::string at = folder + "/" + name;
    cases >> m.n >> m.k >> m.group >> m.scales.type >> m.zeros.type;
    m.format = model::quantized_format(format)->format;
    m.packing = packing == "awq"       ? Packing::awq
                : packing == "gptq"    ? Packing::gptq
                : packing == "gptq_v2" ? Packing::gptq_v2
                                       : Packing::compressed_tensors;
    const auto part = [&](TensorPart& p, const char* kind) {
      p.path = at + "." + kind, p.bytes = int64_t(bytes_of(p.path).size());
      p.file = std::make_shared<ReadOnlyFile>(p.path);
    };
    m.codes.type = "I32";
    part(m.codes, "codes"), part(m.scales, "scales");
    if (m.zeros.type != "-") part(m.zeros, "zeros");
    const std::string what = name + " " + packing + " " + format;
    expect(m.problem().empty(), what + ": " + m.problem());
    if (!m.problem().empty()) continue;
    const std::vector<char> numbers = bytes_of(at + ".f32");
    const int64_t bytes = quantization::row_bytes(m.format, m.k);
    for (const auto& [row0, rows] : {std::pair<int64_t, int64_t>{0, m.n}, {0, 1}, {3, 6}, {m.n - 5, 5}, {9, 1}}) {
      std::vector<uint8_t> blocks(size_t(rows * bytes));
      m.blocks(row0, rows, blocks.data());
      std::vector<float> got(size_t(rows * m.k));
      for (int64_t r = 0; r < rows; r++)
        quantization::dequantize_row(m.format, &blocks[size_t(r * bytes)], m.k, &got[size_t(r * m.k)]);
      expect(int64_t(numbers.size()) == m.n * m.k * 4 &&
                 !std::memcmp(got.data(), numbers.data() + row0 * m.k * 4, got.size() * 4),
             what + ": rows " + std::to_string(row0) + " and " + std::to_string(rows) + " of them");
    }
    const auto wrong = [&](const char* how, const std::function<void(PackedMatrix&)>& change) {
      PackedMatrix other = m;
      change(other);
      expect(!other.problem().empty(), what + ": " + how + " is refused");
    };
    wrong("a word less", [](PackedMatrix& o) { o.codes.bytes -= 4; });
    wrong("a scale less", [](PackedMatrix& o) { o.scales.bytes -= 2; });
    wrong("scales of integers", [](PackedMatrix& o) { o.scales.type = "I32"; });
    wrong("a group that does not divide", [](PackedMatrix& o) { o.group += 32; });
    wrong("no group", [](PackedMatrix& o) { o.group = 0; });
    if (m.zeros.type != "-") wrong("a zero point less", [](PackedMatrix& o) { o.zeros.bytes -= 1; });
  }
  expect(count > 20, "packed matrices to read");
}

}  // namespace

int main(int, char** argv) {
  checks_lists();
  reads(argv[1]);
  reads_words(argv[1]);
  reads_interleaved_heads(argv[1]);
  reads_tiled_heads(argv[1]);
  reads_strides(argv[1]);
  reads_scales_apart(argv[1]);
  reads_negated_exponentials(argv[1]);
  reads_packed(argv[2]);
  return report_failures();
}
