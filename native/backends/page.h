// A block is 64 positions of a sequence, counted from its first token; a page is the memory of its keys and values in
// the layers of one group (page_groups.h); a sequence's block table names the pages of its blocks.
#pragma once

namespace anneal::backends {

constexpr int kPage = 64;  // positions of a block, and so of a page, on every device

}  // namespace anneal::backends
