// quern.hpp in a program that is compiled without exceptions.
#include <quern/quern.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>

static void aborted(int) {
  std::fputs("aborted\n", stderr);
  std::_Exit(0);
}

int main() {
  qn::Model model;
  if (qn_model_load_file("quern-no-such-file", nullptr, model.put()) != QN_IO_ERROR) return 1;
  std::signal(SIGABRT, aborted);
  model = qn::Model::load_file("quern-no-such-file");
  std::fputs("went on\n", stderr);
  return 1;
}
