#include "cli/front.hpp"

int main(int argc, char** argv) {
  return kvasir::cli::run_command_line(std::vector<std::string>(argv + (argc > 0), argv + argc));
}
