#pragma once

// Modules of libtorch that live on other nodes.
#include "troupe/autograd/remote_module.hpp"
