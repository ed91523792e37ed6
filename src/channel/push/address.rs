//! Which addresses belong to the public internet.
//!
//! Owns [`is_public`], the one judge of what a push endpoint may be connected to. Pure: no lookup, no
//! settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 blocks that are not globally reachable, or not one host's (IANA's special-purpose registry, RFC
/// 6890): first address and length of the prefix.
const SPECIAL_V4: [([u8; 4], u32); 18] = [
    ([0, 0, 0, 0], 8),       // this network
    ([10, 0, 0, 0], 8),      // private
    ([100, 64, 0, 0], 10),   // carrier-grade NAT, and tailnets
    ([127, 0, 0, 0], 8),     // loopback
    ([169, 254, 0, 0], 16),  // link-local, and cloud metadata
    ([172, 16, 0, 0], 12),   // private
    ([192, 0, 0, 0], 24),    // protocol assignments
    ([192, 0, 2, 0], 24),    // documentation
    ([192, 31, 196, 0], 24), // AS112
    ([192, 52, 193, 0], 24), // multicast relays
    ([192, 88, 99, 0], 24),  // 6to4 relays
    ([192, 168, 0, 0], 16),  // private
    ([192, 175, 48, 0], 24), // AS112
    ([198, 18, 0, 0], 15),   // benchmarking
    ([198, 51, 100, 0], 24), // documentation
    ([203, 0, 113, 0], 24),  // documentation
    ([224, 0, 0, 0], 4),     // multicast
    ([240, 0, 0, 0], 4),     // reserved, and broadcast
];

/// Within 2000::/3, what is no host of the public internet: first segments and length of the prefix.
/// Teredo is within the first block. 6to4 and Teredo are refused whatever address they carry: both are
/// dead, and no push service lives there.
const SPECIAL_V6: [([u16; 3], u32); 5] = [
    ([0x2001, 0x0000, 0x0000], 23), // protocol assignments
    ([0x2001, 0x0db8, 0x0000], 32), // documentation
    ([0x2002, 0x0000, 0x0000], 16), // 6to4
    ([0x2620, 0x004f, 0x8000], 48), // AS112
    ([0x3fff, 0x0000, 0x0000], 20), // documentation
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
/// multicast, discard-only, IPv4-compatible and the local NAT64 prefix (RFC 8215) lie outside.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let special = SPECIAL_V6.iter().any(|&([first, second, third], length)| {
        let network = Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0).to_bits();
        (address.to_bits() ^ network) >> (u128::BITS - length) == 0
    });
    address.to_bits() >> 125 == 1 && !special && !is_isatap(address)
}

/// ISATAP (RFC 5214, 6.1) puts an IPv4 address at the end of any prefix, behind `::[2]00:5efe`: a machine
/// that has it would send to that address. As dead as 6to4, and refused alike.
fn is_isatap(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [_, _, _, _, 0 | 0x0200, 0x5efe, _, _])
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
            "2606:4700::5eff:808:808",
            "2620:4f:8001::1",
            "2a00:1450:4001:831::200a",
            "3fff:1000::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(public(address), "{address}");
        }
    }

    const INSIDE: [&str; 63] = [
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
        "192.31.196.1",
        "192.52.193.1",
        "192.88.99.1",
        "192.175.48.1",
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
        "::ffff:0:8.8.8.8",
        "100::1",
        "100:0:0:1::1",
        "2001::1",
        "2001:0:808:808::1",
        "2001:2::1",
        "2001:20::1",
        "2001:1ff:ffff::",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2002:808:808::1",
        "2620:4f:8000::1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:8.8.8.8",
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
    ];

    /// Case 23: every range, in each of its forms.
    #[test]
    fn addresses_of_a_private_network_in_any_form_are_not() {
        for address in INSIDE {
            assert!(!public(address), "{address}");
        }
    }

    /// IANA's special-purpose registries and what else is no host's, written down once more as networks.
    const NOT_PUBLIC: [&str; 40] = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "255.255.255.255/32",
        "::/128",
        "::1/128",
        "::/96",
        "::ffff:0:0:0/96",
        "64:ff9b:1::/48",
        "100::/64",
        "100:0:0:1::/64",
        "::/3",
        "2001::/23",
        "2001::/32",
        "2001:2::/48",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
        "4000::/2",
        "8000::/1",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    ];

    /// An address as bits on the left of 128, so that both families are compared alike.
    fn bits(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }

    fn network(text: &str) -> (IpAddr, u32) {
        let (address, length) = text.split_once('/').unwrap();
        (address.parse().unwrap(), length.parse().unwrap())
    }

    fn is_in(address: IpAddr, (network, length): (IpAddr, u32)) -> bool {
        address.is_ipv4() == network.is_ipv4()
            && bits(address).abs_diff(bits(network)) >> (128 - length) == 0
            && bits(address) >= bits(network)
    }

    /// The judge by the list alone; forms that carry an IPv4 address are told apart by their text.
    fn is_public_by_list(address: IpAddr) -> bool {
        let text = |v6: Ipv6Addr| v6.segments().map(|segment| format!("{segment:04x}")).join(":");
        let carried = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => ["0000:0000:0000:0000:0000:ffff:", "0064:ff9b:0000:0000:0000:0000:"]
                .iter()
                .find_map(|prefix| Some(text(v6).strip_prefix(prefix)?.replace(':', "")))
                .map(|hex| IpAddr::V4(u32::from_str_radix(&hex, 16).unwrap().into())),
        };
        let isatap = matches!(address, IpAddr::V6(v6) if
            [":0000:5efe:", ":0200:5efe:"].contains(&text(v6).get(19..30).unwrap()));
        let judged = carried.unwrap_or(address);
        !isatap && !NOT_PUBLIC.iter().any(|block| is_in(judged, network(block)))
    }

    /// Any address; and, so that each line of the list is met, the first and last of each network, their
    /// neighbours, and whatever lies within. An IPv4 address comes in each form that can carry one, too.
    fn any_address() -> impl Strategy<Value = IpAddr> {
        let anywhere = prop_oneof![
            any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())),
            any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())),
            any::<u128>().prop_map(|bits| IpAddr::V6((bits >> 3 | 1 << 125).into())),
        ];
        let within = prop::sample::select(NOT_PUBLIC.as_slice()).prop_map(network);
        let near = (within, any::<u128>(), 0..5).prop_map(|((address, length), inside, which)| {
            let width = if address.is_ipv4() { 32 } else { 128 };
            let (first, size) = (
                bits(address) >> (128 - width),
                (u128::MAX >> (128 - width)).checked_shr(length).unwrap_or(0),
            );
            let at = match which {
                0 => first,
                1 => first.wrapping_sub(1),
                2 => first + size,
                3 => (first + size).wrapping_add(1),
                _ => first + (inside & size),
            };
            match u32::try_from(at & (u128::MAX >> (128 - width))) {
                Ok(v4) if width == 32 => IpAddr::V4(v4.into()),
                _ => IpAddr::V6(at.into()),
            }
        });
        (prop_oneof![anywhere, near], 0..6_usize).prop_map(|(address, form)| {
            let IpAddr::V4(v4) = address else { return address };
            let low = u128::from(v4.to_bits());
            let carriers = [0xffff << 32, 0x64_ff9b << 96, 0x2606_4700_0000_0000_0000_5efe << 32, 0];
            let carrier = carriers.get(form).map(|carrier: &u128| IpAddr::V6((carrier | low).into()));
            carrier.unwrap_or(address)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn the_judge_agrees_with_the_registries(address in any_address()) {
            prop_assert_eq!(is_public(address), is_public_by_list(address), "{}", address);
        }

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
