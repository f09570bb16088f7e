#pragma once

namespace anneal::backends {

constexpr int kPage = 64;  // positions of a KV page, on every device

}  // namespace anneal::backends
