#include "platform.h"

#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/math.h"
#include "kernel/row.h"

namespace quern::check {
namespace {

constexpr size_t guard = 64 << 10;  // unmapped bytes before and after
constexpr int storm_microseconds = 200;
constexpr int hang_ticks = 2000;  // interruptions of one call

// What the signal handlers share with call_guarded.
sigjmp_buf back;
Fault fault;
volatile sig_atomic_t inside = 0;  // a kernel is running
volatile sig_atomic_t ticks = 0;   // interruptions of this call

constexpr int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

// The signals that a handler blocks. A tick that interrupted one would overwrite its own stack. A fault within one, as
// when a mutant has overwritten what the handler needs, kills the process because it is blocked.
sigset_t blocked_in_handlers() {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGALRM);
  for (int signal : faults) sigaddset(&mask, signal);
  return mask;
}

[[noreturn]] void leave(int signal, bool hang, const void* address) {
  fault = {signal, hang, reinterpret_cast<uintptr_t>(address)};
  inside = 0;
  const sigset_t mask = blocked_in_handlers();
  sigprocmask(SIG_UNBLOCK, &mask, nullptr);
  siglongjmp(back, 1);
}

void on_fault(int signal, siginfo_t* info, void*) {
  if (inside != 0) leave(signal, false, info->si_addr);
  __builtin_trap();  // a fault of the checker itself: die, without a call that may need what a mutant has overwritten
}

// The part of the stack that belongs to nobody at the moment of the interruption.
std::pair<char*, size_t> free_stack(const void* context) {
  const auto* c = static_cast<const ucontext_t*>(context);
#if QN_ARCH_X86_64
  auto sp = static_cast<uint64_t>(c->uc_mcontext.gregs[REG_RSP]) - 128;
#elif QN_ARCH_ARM64
  auto sp = static_cast<uint64_t>(c->uc_mcontext.sp);
#else
  auto sp = static_cast<uintptr_t>(c->uc_mcontext.arm_sp);
#endif
  return {reinterpret_cast<char*>(sp) - CALL_BELOW, CALL_BELOW};
}

void on_tick(int signal, siginfo_t*, void* context) {
  if (inside == 0) return;
  const auto [begin, size] = free_stack(context);
  std::memset(begin, 0xdb, size);  // unlike anything that a register holds at the call
  ticks = ticks + 1;
  if (ticks > hang_ticks) leave(signal, true, nullptr);
}

void set_timer(int microseconds) {
  itimerval timer = {};
  timer.it_interval.tv_usec = timer.it_value.tv_usec = microseconds;
  setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::abort();
}

char* writable_code(const void* code, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto* first = static_cast<char*>(const_cast<void*>(code));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(first) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(first) + size + page - 1) / page * page;
  if (mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    give_up("mprotect");
  }
  return first;
}

#if QN_ARCH_X86_64
using Opcode = uint8_t;
constexpr Opcode nop = 0x90, trap = 0xcc;  // int3
#elif QN_ARCH_ARM64
using Opcode = uint32_t;
constexpr Opcode nop = 0xd503201f, trap = 0xd4200000;  // brk
#else
using Opcode = uint32_t;
constexpr Opcode nop = 0xe320f000, trap = 0xe7f000f0;  // udf
#endif

// Fills code with an instruction of this architecture. Where ThreadSanitizer watches, it would look for its notes on
// the code's bytes, and it has none.
__attribute__((no_sanitize("thread"))) void fill_with(const Opcode& opcode, const void* code, size_t size) {
  char* first = writable_code(code, size);
  for (size_t i = 0; i + sizeof opcode <= size; i += sizeof opcode) std::memcpy(first + i, &opcode, sizeof opcode);
  __builtin___clear_cache(first, first + size);
}

// Where the next mapping should lie. A mutant may take an address for a number; where addresses are random, it would be
// killed in most runs, not in all.
void* next_place() {
  constexpr uintptr_t places = 64;
  static uintptr_t count = 0;
  return sizeof(void*) == 4 ? nullptr
                            : reinterpret_cast<void*>(static_cast<uintptr_t>((1 + uint64_t{count++} % places) << 36));
}

}  // namespace

void Guarded::map(size_t size) {
  unmap();
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  body_ = (size + 2 * margin + page - 1) / page * page;
  const int file = memfd_create(name_, 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(body_)) != 0) give_up("memfd_create");
  void* ours = mmap(nullptr, body_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* theirs = mmap(next_place(), body_ + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (ours == MAP_FAILED || theirs == MAP_FAILED) give_up("mmap");
  ours_ = static_cast<char*>(ours);
  theirs_ = static_cast<char*>(theirs) + guard;
  const int protection = access_ == Access::input ? PROT_READ : PROT_READ | PROT_WRITE;
  if (mmap(theirs_, body_, protection, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) give_up("mmap");
  close(file);
}

void Guarded::unmap() {
  if (ours_ == nullptr) return;
  munmap(ours_, body_);
  munmap(theirs_ - guard, body_ + 2 * guard);
}

Guarded::~Guarded() { unmap(); }

void Guarded::place(size_t size, Place place, size_t alignment) {
  if (ours_ == nullptr || size > body_) map(size);
  size_ = size;
  fill_ = place.fill;
  offset_ = place.side == Side::low ? 0 : (body_ - size) / alignment * alignment;
  begin_ = offset_ > margin ? (offset_ - margin) / sizeof fill_ * sizeof fill_ : 0;
  end_ = std::min(body_, round_up(offset_ + size + margin, sizeof fill_));
  std::fill(reinterpret_cast<Fill*>(ours_ + begin_), reinterpret_cast<Fill*>(ours_ + end_), fill_);
}

std::span<const uint8_t> Guarded::surroundings() const {
  return {reinterpret_cast<const uint8_t*>(ours_ + begin_), end_ - begin_};
}

// The handlers have a stack of their own, since a kernel may have lost the real one.
void install_handlers() {
  static bool done = false;
  if (done) return;
  done = true;
  static char stack[256 << 10];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  action.sa_mask = blocked_in_handlers();
  action.sa_sigaction = on_fault;
  for (int signal : faults) sigaction(signal, &action, nullptr);
  action.sa_flags |= SA_RESTART;
  action.sa_sigaction = on_tick;
  sigaction(SIGALRM, &action, nullptr);
}

Fault call_guarded(Call& call) {
  install_handlers();
  fault = {};
  ticks = 0;
  if (sigsetjmp(back, 0) == 0) {
    inside = 1;
    qn_checked_call(&call);
    inside = 0;
  } else {
    std::fesetenv(FE_DFL_ENV);  // the kernel may have changed it
  }
  return fault;
}

Storm::Storm() {
  install_handlers();
  set_timer(storm_microseconds);
}

Storm::~Storm() { set_timer(0); }

bool in_child(const std::function<bool()>& body) {
  constexpr int yes = 42;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) _exit(body() ? yes : 0);
  int status = 0;
  if (waitpid(child, &status, 0) != child) give_up("waitpid");
  return WIFEXITED(status) && WEXITSTATUS(status) == yes;
}

__attribute__((no_sanitize("thread"))) void overwrite(const void* code, std::span<const uint8_t> bytes) {
  char* first = writable_code(code, bytes.size());
  std::memcpy(first, bytes.data(), bytes.size());
  __builtin___clear_cache(first, first + bytes.size());
}

void overwrite_with_noops(const void* code, size_t size) { fill_with(nop, code, size); }

void trap_at(const void* code) {
#if QN_ARCH_ARM32
  // A compiler's functions may be Thumb, which bit 0 of the address says; two instructions of 16 bits then.
  constexpr Opcode thumb_trap = 0xde00de00;
  const auto address = reinterpret_cast<uintptr_t>(code);
  if (address % 2 == 1) return fill_with(thumb_trap, reinterpret_cast<const void*>(address - 1), sizeof thumb_trap);
#endif
  fill_with(trap, code, sizeof trap);
}

void trap_after(const void* end) {
  constexpr size_t alignment = 16;  // of every function
  const size_t size = (0 - reinterpret_cast<uintptr_t>(end)) % alignment;
  if (size != 0) fill_with(trap, end, size);
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::string text;
  char block[4096];
  for (size_t n; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
  if (pclose(pipe) != 0) throw std::runtime_error("this failed: " + command);
  return text;
}

}  // namespace quern::check
