#!/usr/bin/env python3
"""Tests of the check of the layout, on small trees that are made up."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
from check_layout import check, cycles, read_order, unit_of

ORDER = """# the lowest first
messages/base
messages  # a comment

transport
transport/ucx
actors/node
actors
actors/include
"""


class LayoutTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "order.txt").write_text(ORDER, encoding="utf-8")

    def write(self, path, *headers):
        """A file that includes `headers`, each named as code names it."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        text = "#pragma once\n" + "".join(f'#include "troupe/{header}"\n' for header in headers)
        (self.root / path).write_text(text, encoding="utf-8")

    def breaches(self):
        return check(self.root, read_order(self.root / "order.txt"))[1]

    def test_reads_the_order_without_comments(self):
        self.assertEqual(list(read_order(self.root / "order.txt")),
                         ["messages/base", "messages", "transport", "transport/ucx", "actors/node", "actors", "actors/include"])

    def test_includes_may_go_down_and_aside(self):
        self.write("messages/base/error.hpp")
        self.write("messages/base/log.hpp", "messages/base/error.hpp")
        self.write("transport/ucx/peer.hpp", "messages/base/log.hpp")
        self.write("actors/node/node.hpp", "transport/ucx/peer.hpp")
        self.assertEqual(self.breaches(), [])

    def test_an_include_that_goes_up_is_a_breach(self):
        self.write("transport/transport.hpp")
        self.write("messages/base/error.hpp", "transport/transport.hpp")
        self.assertEqual(self.breaches(),
                         ["messages/base/error.hpp: includes transport/transport.hpp, which is above it"])

    def test_a_source_goes_no_more_up_than_a_header(self):
        self.write("transport/transport.hpp")
        self.write("messages/base/error.hpp")
        self.write("messages/base/error.cpp", "messages/base/error.hpp", "transport/transport.hpp")
        self.assertEqual(len(self.breaches()), 1)

    def test_public_headers_are_named_without_their_folder(self):
        self.write("actors/node/node.hpp")
        self.write("actors/include/troupe/troupe.hpp", "actors/node/node.hpp")
        self.assertEqual(self.breaches(), [])
        self.write("actors/node/other.hpp", "troupe.hpp")
        self.assertEqual(self.breaches(),
                         ["actors/node/other.hpp: includes actors/include/troupe/troupe.hpp, which is above it"])

    def test_a_folder_that_is_not_listed_is_a_breach(self):
        self.write("optim/client/optimizer.hpp")
        self.assertEqual(self.breaches(),
                         ["optim/client/optimizer.hpp: its folder is not in tests/layout/order.txt"])

    def test_a_new_folder_of_a_listed_one_is_a_breach(self):
        self.write("transport/memory/pool.hpp")
        self.assertEqual(self.breaches(),
                         ["transport/memory/pool.hpp: its folder is not in tests/layout/order.txt"])

    def test_an_include_that_is_not_named_from_the_root_is_a_breach(self):
        (self.root / "transport").mkdir()
        (self.root / "transport/a.hpp").write_text('#include "b.hpp"\n', encoding="utf-8")
        self.assertEqual(self.breaches(),
                         ['transport/a.hpp: includes "b.hpp", which is not named from the root: "troupe/..."'])

    def test_a_header_that_is_missing_is_a_breach(self):
        self.write("messages/base/error.hpp", "messages/base/gone.hpp")
        self.assertEqual(len(self.breaches()), 1)
        self.assertIn("is not there", self.breaches()[0])

    def test_generated_headers_are_not_looked_for(self):
        self.write("messages/base/error.hpp", "messages/schema/error.capnp.h")
        self.assertEqual(self.breaches(), [])

    def test_a_cycle_of_headers_is_a_breach(self):
        self.write("transport/a.hpp", "transport/b.hpp")
        self.write("transport/b.hpp", "transport/c.hpp")
        self.write("transport/c.hpp", "transport/a.hpp")
        self.assertEqual(self.breaches(), ["cycle: transport/a transport/b transport/c"])

    def test_a_cycle_by_way_of_sources_is_a_breach(self):
        self.write("transport/a.hpp")
        self.write("transport/b.hpp")
        self.write("transport/a.cpp", "transport/a.hpp", "transport/b.hpp")
        self.write("transport/b_send.cpp", "transport/b.hpp", "transport/a.hpp")  # a part of b
        self.assertEqual(self.breaches(), ["cycle: transport/a transport/b"])

    def test_an_internal_header_belongs_to_its_unit(self):
        headers = {"transport/peer.hpp", "transport/peer_internal.hpp", "transport/lane_internal.hpp"}
        self.assertEqual(unit_of("transport/peer_internal.hpp", headers), "transport/peer")
        self.assertEqual(unit_of("transport/lane_internal.hpp", headers), "transport/lane")
        self.write("transport/peer.hpp")
        self.write("transport/peer_internal.hpp", "transport/peer.hpp")
        self.write("transport/peer.cpp", "transport/peer_internal.hpp")
        self.assertEqual(self.breaches(), [])
        # Seen as one, the unit and another are a cycle.
        self.write("transport/other.hpp", "transport/peer.hpp")
        self.write("transport/peer_internal.hpp", "transport/other.hpp")
        self.assertEqual(self.breaches(), ["cycle: transport/other transport/peer"])

    def test_a_source_belongs_to_the_longest_name(self):
        headers = {"t/store.hpp", "t/store_server.hpp"}
        self.assertEqual(unit_of("t/store_server_read.cpp", headers), "t/store_server")
        self.assertEqual(unit_of("t/store_client.cpp", headers), "t/store")
        self.assertEqual(unit_of("t/storage.cpp", headers), "t/storage")
        self.assertEqual(unit_of("t/store_server.hpp", headers), "t/store_server")

    def test_finds_cycles_of_their_own(self):
        self.assertEqual(cycles({"a": {"b"}, "b": {"a"}, "c": {"d", "a"}, "d": {"c"}, "e": {"a"}}),
                         [["a", "b"], ["c", "d"]])
        self.assertEqual(cycles({"a": {"b"}, "b": set()}), [])


if __name__ == "__main__":
    unittest.main()
