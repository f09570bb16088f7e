namespace {
void check_bits(const std::string&) {}
void bench(const std::string&) {}
}
