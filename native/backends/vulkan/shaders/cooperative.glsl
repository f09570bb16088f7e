// Products on cooperative matrices, whose left and right are float16 and whose sums are float32: the fast family. Elements
// of the left rows come as half_rows.comp writes them; weights are widened and rounded to float16 on the way. What an
// output's bits depend on is its row and its weights alone: every output is summed in matrices of the same shape, over
// kDepth k at a time, in slices of k that depend on k and are added in order, whatever the number of rows.
// (The compiler knows NVIDIA's first version of these matrices; compile.mjs makes them those of all vendors.)
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require

layout(constant_id = 7) const int kM = 16;
layout(constant_id = 8) const int kN = 16;
layout(constant_id = 9) const int kK = 16;
layout(local_size_x_id = 10) in;  // kSubgroups subgroups

#define Left fcoopmatNV<16, gl_ScopeSubgroup, kM, kK>
#define Right fcoopmatNV<16, gl_ScopeSubgroup, kK, kN>
#define Sum fcoopmatNV<32, gl_ScopeSubgroup, kM, kN>

const int kSubgroups = 8;
const int kThreads = int(gl_WorkGroupSize.x), kSubgroupThreads = kThreads / kSubgroups;
const int kDepth = 32, kDepthGranules = kDepth / 8;
const int kLd = kDepthGranules + 1;  // granules of a row in shared memory: an odd number meets fewer of the same banks

int steps_of(int k) { return (k + kDepth - 1) / kDepth; }

// Granules of a row of halves: behind its elements is one that says what it is to be multiplied with, and as rows begin
// on 32 bytes, what devices read at once, one that says nothing.
int half_granules(int k) { return steps_of(k) * kDepthGranules + 2; }
float unit_of(Granules x, int row, int ldx) { return as_float(x.at[row * ldx + ldx - 1].x); }

// Which granule of a step of rows an invocation brings, [row, granule]: eight that follow each other read whole 32 bytes
// and write to different banks of shared memory.
ivec2 brought(int at) {
  return ivec2(at / 32 * 8 + (at >> 1 & 3) * 2 + (at >> 4 & 1), (at & 1) | (at >> 2 & 2));
}

uvec4 halves(uvec4 g) {
  return uvec4(packHalf2x16(vec2(part(g, 0), part(g, 1))), packHalf2x16(vec2(part(g, 2), part(g, 3))),
               packHalf2x16(vec2(part(g, 4), part(g, 5))), packHalf2x16(vec2(part(g, 6), part(g, 7))));
}
