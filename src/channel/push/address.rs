//! Which addresses belong to the public internet.
//!
//! Owns [`is_public`], the one judge of what a push endpoint may be connected to. Pure: no lookup, no
//! settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are not globally reachable, or not one host's (IANA's special-purpose registry, RFC
/// 6890): first address and length of the prefix.
const SPECIAL_V4: [([u8; 4], u32); 16] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // carrier-grade NAT, and tailnets
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, and cloud metadata
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 31, 196, 0], 24), // AS112
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([198, 18, 0, 0], 15),   // benchmarking
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // reserved, and broadcast
];

/// Within 2000::/3, what is no host of the public internet: first segments and length of the prefix.
/// Teredo is within the first block. 6to4 and Teredo are refused whatever address they carry: both are
/// dead, and no push service lives there.
const SPECIAL_V6: [([u16; 2], u32); 4] = [
    ([0x2001, 0x0000], 23), // protocol assignments
    ([0x2001, 0x0db8], 32), // documentation
    ([0x2002, 0x0000], 16), // 6to4
    ([0x3fff, 0x0000], 20), // documentation
];

/// Whether `address` is a unicast address of the public internet. An IPv6 address that carries an IPv4
/// one (mapped, or NAT64 by the well-known prefix, RFC 6052) is judged by that.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => embedded_v4(v6).map_or_else(|| is_public_v6(v6), is_public_v4),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|&(network, length)| {
        let apart = address.to_bits() ^ Ipv4Addr::from(network).to_bits();
        apart >> (u32::BITS - length) == 0
    })
}

/// All that is delegated for hosts is in 2000::/3; loopback, link-local, site-local, unique local,
/// multicast, IPv4-compatible and the local NAT64 prefix (RFC 8215) lie outside.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let head = u32::from(first) << 16 | u32::from(second);
    let special = SPECIAL_V6.iter().any(|&([one, two], length)| {
        let network = u32::from(one) << 16 | u32::from(two);
        (head ^ network) >> (u32::BITS - length) == 0
    });
    first >> 13 == 1 && !special
}

fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] | [0x64, 0xff9b, 0, 0, 0, 0, _, _] => {
            let [.., a, b, c, d] = address.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn public(address: &str) -> bool {
        is_public(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_public_internet_are_public() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "142.250.74.106",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "203.0.114.0",
            "223.255.255.255",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00:1450:4001:831::200a",
            "3fff:1000::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(public(address), "{address}");
        }
    }

    /// Case 23: every range, in each of its forms.
    #[test]
    fn addresses_of_a_private_network_in_any_form_are_not() {
        for address in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "192.168.255.255",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::8.8.8.8",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:100.64.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:0:0:0:1:808:808",
            "100::1",
            "2001::1",
            "2001:0:808:808::1",
            "2001:2::1",
            "2001:20::1",
            "2001:1ff:ffff::",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2002:808:808::1",
            "3fff:fff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd7a:115c:a1e0::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "feff::1",
            "ff02::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_address_is_judged_alike_in_its_mapped_and_nat64_forms(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let [a, b, c, d] = v4.octets();
            let low = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, low[0], low[1]);
            prop_assert_eq!(is_public(v4.into()), is_public(v4.to_ipv6_mapped().into()));
            prop_assert_eq!(is_public(v4.into()), is_public(nat64.into()));
        }

        #[test]
        fn what_the_standard_library_calls_special_is_never_public(bits: u32, wide: u128) {
            let v4 = Ipv4Addr::from(bits);
            let special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_unspecified() || v4.is_documentation();
            prop_assert!(!(special && is_public(v4.into())));
            let v6 = Ipv6Addr::from(wide);
            let special = v6.is_loopback() || v6.is_multicast() || v6.is_unspecified()
                || v6.is_unique_local() || v6.is_unicast_link_local();
            prop_assert!(!(special && is_public(v6.into())));
        }

        #[test]
        fn no_6to4_or_teredo_or_local_nat64_address_is_public(low: u128) {
            for (prefix, length) in [(0x2002_u128 << 112, 16), (0x2001_u128 << 112, 32), (0x64_ff9b_0001_u128 << 80, 48)] {
                prop_assert!(!is_public(Ipv6Addr::from(prefix | (low >> length)).into()));
            }
        }
    }
}
