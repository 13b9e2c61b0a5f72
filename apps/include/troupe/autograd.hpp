#pragma once

// Backward passes over the nodes of a job.
#include "autograd/context.hpp"
#include "autograd/default_context.hpp"
