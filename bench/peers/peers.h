// The engines that quern-peers-bench runs.
#pragma once

#include "engine.h"

namespace quern::peers {

const Engine& quern_engine();

// Names of all peers, as of their modules.
std::vector<std::string> peer_names();

// Opens the module of a peer, which stays open. Throws std::runtime_error if it cannot.
const Peer& open_peer(const std::string& name);

}  // namespace quern::peers
