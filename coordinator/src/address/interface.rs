//! What the interface is like, and which addresses stand where.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use coordinator_core::address::Link;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::libc;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{LinkAddr, SockaddrStorage};

/// An interface as the kernel shows it at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    pub(super) link: Link,
    /// To send frames to; `None` where there is no such interface.
    pub(super) place: Option<LinkAddr>,
}

impl Interface {
    /// The kernel's number for it, under which addresses are put.
    pub(super) fn index(&self) -> Option<u32> {
        u32::try_from(self.place?.ifindex()).ok()
    }
}

/// Everything that there is, as pairs of interface and address.
pub(super) struct Look(Vec<InterfaceAddress>);

impl Look {
    pub(super) fn now() -> io::Result<Look> {
        Ok(Look(getifaddrs()?.collect()))
    }

    pub(super) fn interface(&self, name: &str) -> Interface {
        let found = self.0.iter().find_map(|entry| {
            let place = *entry.address.as_ref()?.as_link_addr()?;
            (entry.interface_name == name).then_some((entry.flags, place))
        });
        match found {
            None => Interface {
                link: Link::Missing,
                place: None,
            },
            Some((flags, place)) => Interface {
                link: judge(flags, place),
                place: Some(place),
            },
        }
    }

    /// Where an address stands: on which interfaces, and with a prefix of how many bits.
    pub(super) fn places(&self, wanted: IpAddr) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().filter_map(move |entry| {
            let address = entry.address.as_ref().and_then(ip)?;
            let mask = entry.netmask.as_ref().and_then(ip);
            let bits = match mask {
                Some(IpAddr::V4(mask)) => u32::from(mask).count_ones(),
                Some(IpAddr::V6(mask)) => u128::from(mask).count_ones(),
                None => return None,
            };
            (address == wanted).then_some((entry.interface_name.as_str(), bits))
        })
    }

    pub(super) fn has(&self, interface: &str, address: IpAddr) -> bool {
        let mut places = self.places(address);
        places.any(|(on, bits)| on == interface && bits == bits_whole(address))
    }
}

/// The prefix of an address that stands for itself alone.
pub(super) fn bits_whole(address: IpAddr) -> u32 {
    if address.is_ipv4() {
        Ipv4Addr::BITS
    } else {
        Ipv6Addr::BITS
    }
}

fn judge(flags: InterfaceFlags, place: LinkAddr) -> Link {
    if place.hatype() != libc::ARPHRD_ETHER || place.halen() != 6 {
        return Link::NotEthernet;
    }
    if !flags.contains(InterfaceFlags::IFF_UP) {
        return Link::Down;
    }
    match place.addr() {
        // Running is what the kernel calls a carrier, and a bond or bridge that has one.
        Some(hardware) if flags.contains(InterfaceFlags::IFF_RUNNING) => Link::Up { hardware },
        _ => Link::NoCarrier,
    }
}

fn ip(address: &SockaddrStorage) -> Option<IpAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(v4.ip().into());
    }
    address.as_sockaddr_in6().map(|v6| v6.ip().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_is_no_ethernet() {
        let look = Look::now().unwrap();
        assert_eq!(look.interface("lo").link, Link::NotEthernet);
        assert_eq!(look.interface("lo").index(), Some(1));
        let missing = look.interface("none0");
        assert_eq!((missing.link, missing.index()), (Link::Missing, None));
        let places: Vec<_> = look.places(Ipv4Addr::LOCALHOST.into()).collect();
        assert_eq!(places, [("lo", 8)]);
        assert!(!look.has("lo", Ipv4Addr::LOCALHOST.into()), "not by itself");
    }
}
