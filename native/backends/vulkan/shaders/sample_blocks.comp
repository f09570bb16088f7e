#version 460
// Of blocks of the rows of logits [rows][n] that requests are for: what their log-sum-exp is merged of, and the likeliest.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "log_sum_exp.glsl"
#include "row_blocks.glsl"
#include "requests.glsl"

layout(push_constant) uniform Parameters {
  Floats logits;
  Requests requests;
  Blocks blocks;  // [requests][blocks]
  int n;
};

shared uint likeliest_key[64];
shared int likeliest_id[64];
shared uint strange[kBlocksAtOnce];

void main() {
  const int me = int(gl_LocalInvocationID.x), request = int(gl_WorkGroupID.y), here = me / kLanes, lane = me % kLanes;
  const float inverse_temperature = requests.at[request].inverse_temperature;
  read_columns(logits, requests.at[request].row * n, n);
  if (lane == 0) strange[here] = 0u;

  uint key = 0u, mine = 0u;
  int id = 0;
  for (int j = 0; j < kLaneColumns; j++) {
    const float x = columns[j][me];
    const uint bits = as_bits(x), other = ordered(x);
    mine |= uint(bits == kExponent || (bits & 0x7fffffffu) > kExponent);
    if (other > key) key = other, id = column_here(j);
  }
  likeliest_key[me] = key, likeliest_id[me] = id;
  barrier();
  if (mine != 0u) atomicOr(strange[here], mine);

  const vec2 plain = maximum_and_mass(1.0);
  vec2 tempered = vec2(0.0);
  if (inverse_temperature != 0.0) tempered = maximum_and_mass(inverse_temperature);
  if (lane != 0 || block_here() >= blocks_of(n)) return;
  for (int i = 1; i < kLanes; i++) {
    const uint other = likeliest_key[me + i];
    const int other_id = likeliest_id[me + i];
    if (other > key || (other == key && other_id < id)) key = other, id = other_id;
  }
  blocks.at[request * blocks_of(n) + block_here()] =
      Block(plain.x, plain.y, tempered.x, tempered.y, key, strange[here] != 0u ? -1 : id);
}
