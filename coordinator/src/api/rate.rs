//! How fast one client may ask.
//!
//! A script that asks in a circle would keep the scheduler's machine busy with answering it. Each
//! address has a bucket that fills at a steady pace and holds a burst; a request takes one out. A
//! full bucket says nothing that an absent one does not, so full ones are forgotten.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Requests a second that a client may go on with.
const PACE: f64 = 500.0;

/// Requests at once after some silence: two seconds' worth.
const BURST: f64 = 1000.0;

/// Clients that are told apart. Beyond, those that ask least are forgotten first.
const CLIENTS_MAX: usize = 4096;

#[derive(Default)]
pub(super) struct Rates {
    buckets: Mutex<BTreeMap<IpAddr, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Rates {
    /// Takes one request of this client out, or says how long to wait for the next.
    pub(super) fn take(&self, client: IpAddr) -> Result<(), Duration> {
        self.take_at(client, Instant::now())
    }

    fn take_at(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= CLIENTS_MAX && !buckets.contains_key(&client) {
            buckets.retain(|_, bucket| bucket.filled(now) < BURST);
            if buckets.len() >= CLIENTS_MAX {
                let fullest = |a: &Bucket, b: &Bucket| a.filled(now).total_cmp(&b.filled(now));
                let idle = buckets.iter().max_by(|(_, a), (_, b)| fullest(a, b));
                let idle = idle.map(|(client, _)| *client);
                idle.map(|client| buckets.remove(&client));
            }
        }
        let bucket = buckets.entry(client).or_insert(Bucket {
            left: BURST,
            at: now,
        });
        bucket.left = bucket.filled(now);
        bucket.at = now;
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) / PACE));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

impl Bucket {
    fn filled(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + passed * PACE).min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn client(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    #[test]
    fn a_burst_and_then_a_steady_pace() {
        let rates = Rates::default();
        let now = Instant::now();
        let taken = |now, tries: u32| {
            (0..tries)
                .filter(|_| rates.take_at(client(1), now).is_ok())
                .count()
        };
        assert_eq!(taken(now, 1200), 1000);
        assert!(rates.take_at(client(2), now).is_ok(), "another's bucket");
        let wait = rates.take_at(client(1), now).unwrap_err();
        assert_eq!(wait, Duration::from_millis(2));
        assert_eq!(taken(now + Duration::from_millis(100), 1200), 50);
        assert_eq!(taken(now + Duration::from_secs(3600), 1200), 1000);
    }

    #[test]
    fn so_many_clients_are_told_apart_and_who_asks_most_is_not_forgotten() {
        let rates = Rates::default();
        let now = Instant::now();
        while rates.take_at(client(0), now).is_ok() {}
        for n in 1..=2 * CLIENTS_MAX as u32 {
            rates.take_at(client(n), now).unwrap();
        }
        assert_eq!(rates.buckets.lock().unwrap().len(), CLIENTS_MAX);
        assert!(rates.take_at(client(0), now).is_err());
    }
}
