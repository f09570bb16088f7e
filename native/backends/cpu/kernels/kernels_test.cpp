// Checks of every kernel: against a double-precision reference, bit for bit across instruction sets, row counts and
// ways to split the work, and (gradients) against finite differences. Build and run: make -C native test-kernels.
// Throughput: make -C native bench-kernels.
#include "kernels_fixture.h"

namespace anneal::cpu::test {

void test_products();
void test_sums_of_tiles();
void test_quantized();
void test_reference_blocks(const std::string& folder);
void test_rows();
void test_attention();
void test_delta_rule();
void test_short_convolution();
void test_sampling();
void bench();

}  // namespace anneal::cpu::test

int main(int argc, char** argv) {
  using namespace anneal::cpu;
  FloatMode mode;
  std::printf("best: %s\n", isa_name(best_isa()));
  if (argc > 1 && !std::strcmp(argv[1], "--bench")) {
    test::bench();
    return 0;
  }
  test::test_products();
  test::test_rows();
  test::test_attention();
  test::test_delta_rule();
  test::test_short_convolution();
  test::test_sampling();
  test::test_quantized();
  if (!kernels(kFastIsas[0], DType::bf16)) {
    std::printf("the fast family has no kernels here\n");
  } else {
    std::printf("the fast family, %s\n", has_matrix_unit() ? "also by the matrix unit" : "without a matrix unit");
    test::is_fast_family = true;
    test::test_sums_of_tiles();
    test::test_products();
    test::test_attention();
    test::test_quantized();
    test::is_fast_family = false;
  }
  if (argc > 1) test::test_reference_blocks(argv[1]);
  std::printf("%d checks, %d failed\n", test::checks, test::failures);
  return test::failures ? 1 : 0;
}
