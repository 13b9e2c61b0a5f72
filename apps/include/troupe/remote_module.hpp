#pragma once

// Modules of libtorch that live on other nodes.
#include "autograd/remote_module.hpp"
