#pragma once

// Backward passes over the nodes of a job.
#include "troupe/autograd/context.hpp"
#include "troupe/autograd/default_context.hpp"
