#include "troupe/transport/ucx/devices.hpp"

#include <uct/api/uct.h>

namespace troupe::transport {

namespace {

ucx_device::type type_of(uct_device_type_t type) {
  switch (type) {
    case UCT_DEVICE_TYPE_NET: return ucx_device::type::network;
    case UCT_DEVICE_TYPE_SHM: return ucx_device::type::shared_memory;
    case UCT_DEVICE_TYPE_ACC: return ucx_device::type::accelerator;
    case UCT_DEVICE_TYPE_SELF: return ucx_device::type::own_process;
    default: return ucx_device::type::other;
  }
}

void add_devices(uct_md_h domain, std::vector<ucx_device>& out) {
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &found, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i)
    out.push_back({found[i].tl_name, found[i].dev_name, type_of(found[i].dev_type)});
  uct_release_tl_resource_list(found);
}

void add_component(uct_component_h component, std::vector<ucx_device>& out) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (domains.empty() || uct_component_query(component, &attributes) != UCS_OK) return;
  for (const uct_md_resource_desc_t& domain : domains) {
    uct_md_config_t* config = nullptr;
    if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) continue;
    uct_md_h opened = nullptr;
    if (uct_md_open(component, domain.md_name, config, &opened) == UCS_OK) {
      add_devices(opened, out);
      uct_md_close(opened);
    }
    uct_config_release(config);
  }
}

}  // namespace

std::vector<ucx_device> find_ucx_devices() {
  std::vector<ucx_device> out;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return out;
  for (unsigned i = 0; i < count; ++i) add_component(components[i], out);
  uct_release_component_list(components);
  return out;
}

const char* text_of(ucx_device::type kind) {
  switch (kind) {
    case ucx_device::type::network: return "network";
    case ucx_device::type::shared_memory: return "shared memory";
    case ucx_device::type::accelerator: return "accelerator";
    case ucx_device::type::own_process: return "own process";
    case ucx_device::type::other: return "other";
  }
  return "other";
}

}  // namespace troupe::transport
