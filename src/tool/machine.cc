#include "tool/machine.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/cpu.h"
#include "base/cpus.h"

namespace quern {
namespace {

const char* source_name(Source source) {
  return source == Source::guessed ? "guessed" : source == Source::detected ? "detected" : "pretended";
}

nlohmann::ordered_json fact(nlohmann::ordered_json value, Source source) {
  return {{"value", std::move(value)}, {"source", source_name(source)}};
}

// "48 KiB", or bytes otherwise.
std::string size_text(size_t bytes) {
  if (bytes % 1024 != 0) return fmt::format("{} bytes", bytes);
  return bytes % (1 << 20) == 0 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

std::string identity_text(const CpuIdentity& id) {
  const std::string name = *id.name == '\0' ? "unknown" : id.name;
  if (id.midr != 0) return fmt::format("{} (MIDR 0x{:08x})", name, id.midr);
  return id.family == 0 ? name : fmt::format("{} (family {}, model {})", name, id.family, id.model);
}

void print_fact(const char* what, const std::string& value, Source source) {
  fmt::print("{:<7}{:<40}{}\n", what, value, source_name(source));
}

}  // namespace

nlohmann::ordered_json machine_json() {
  const CpuIdentity id = cpu_identity();
  const Sources& sources = cpu().sources;
  nlohmann::ordered_json json = {{"cpu", id.name}};
  if (id.family != 0) json["family"] = id.family, json["model"] = id.model;
  if (id.midr != 0) json["midr"] = id.midr;
  json["core"] = fact(core_name(cpu().core), sources.core);
  json["level_f32"] = fact(isa_name(float_level()), sources.isa);
  json["level_int8"] = fact(isa_name(byte_level()), sources.isa);
  json["l1_bytes"] = fact(cpu().l1_bytes, sources.l1);
  json["l2_bytes"] = fact(cpu().l2_bytes, sources.l2);
  json["l3_bytes"] = fact(cpu().l3_bytes, sources.l3);
  json["page_bytes"] = fact(cpu().page_bytes, sources.page);
  json["cpus"] = fact(usable_cores(), sources.cpus);
  return json;
}

void print_machine() {
  const Sources& sources = cpu().sources;
  fmt::print("{:<7}{}\n", "CPU", identity_text(cpu_identity()));
  print_fact("core", core_name(cpu().core), sources.core);
  print_fact("level", fmt::format("{} for f32, {} for int8", isa_name(float_level()), isa_name(byte_level())),
             sources.isa);
  print_fact("L1", size_text(cpu().l1_bytes), sources.l1);
  print_fact("L2", size_text(cpu().l2_bytes), sources.l2);
  print_fact("L3", size_text(cpu().l3_bytes), sources.l3);
  print_fact("pages", size_text(cpu().page_bytes), sources.page);
  print_fact("CPUs", fmt::format("{} allowed", usable_cores()), sources.cpus);
}

}  // namespace quern
