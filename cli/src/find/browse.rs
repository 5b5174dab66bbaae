//! Sends mDNS queries and collects the answers until the time is over.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mdns_sd::{DaemonEvent, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent};
use tokio::task::spawn_blocking;
use weaver_diagnostics::announcement::SERVICE;

use super::card::{FoundService, ServedAddress};

/// How long its thread may take to end: it ends with the program in any case.
const FAREWELL: Duration = Duration::from_millis(200);

/// At most so many services, each as it was heard last.
pub async fn services(port: u16, time: Duration, most: usize) -> anyhow::Result<Vec<FoundService>> {
    spawn_blocking(move || heard(port, time, most)).await.context("listening to mDNS")?
}

fn heard(port: u16, time: Duration, most: usize) -> anyhow::Result<Vec<FoundService>> {
    let until = Instant::now() + time;
    let daemon = ServiceDaemon::new_with_port(port).context("cannot listen to mDNS")?;
    let faults = daemon.monitor().context("cannot listen to mDNS")?;
    let events = daemon.browse(&format!("{SERVICE}.local.")).context("cannot ask by mDNS")?;
    let mut found = BTreeMap::new();
    while let Ok(event) = events.recv_timeout(until.saturating_duration_since(Instant::now())) {
        match event {
            // As many as are shown, and one more, which shows that there are others.
            ServiceEvent::ServiceResolved(service)
                if found.len() < most || found.contains_key(&service.fullname) =>
            {
                found.insert(service.fullname.clone(), read(&service));
            }
            ServiceEvent::ServiceRemoved(_, name) => drop(found.remove(&name)),
            _ => {}
        }
        if Instant::now() >= until {
            break;
        }
    }
    if let Ok(ended) = daemon.shutdown() {
        let _ = ended.recv_timeout(FAREWELL);
    }
    // One interface of several may be without multicast: what was heard on the others is what counts.
    let fault = faults.try_iter().find_map(|event| match event {
        DaemonEvent::Error(error) => Some(error),
        _ => None,
    });
    match fault {
        Some(error) if found.is_empty() => Err(error).context("cannot ask by mDNS"),
        _ => Ok(found.into_values().collect()),
    }
}

fn read(service: &ResolvedService) -> FoundService {
    let instance = service.fullname.split_once(&format!(".{SERVICE}")).map_or("", |(name, _)| name);
    let records = service.txt_properties.iter();
    FoundService {
        instance: instance.to_owned(),
        port: service.port,
        addresses: service.addresses.iter().map(address).collect(),
        records: records
            .map(|record| (record.key().to_owned(), record.val().unwrap_or_default().to_vec()))
            .collect(),
    }
}

fn address(scoped: &ScopedIp) -> ServedAddress {
    let interfaces = match scoped {
        ScopedIp::V4(v4) => v4.interface_ids(),
        ScopedIp::V6(v6) => std::slice::from_ref(v6.scope_id()),
        _ => &[],
    };
    let is_own =
        interfaces.iter().any(|interface| interface.get_addrs().iter().any(std::net::IpAddr::is_loopback));
    let interface = interfaces.first();
    ServedAddress {
        at: SocketAddr::new(scoped.to_ip_addr(), 0),
        interface: interface.map(|interface| (interface.name.clone(), interface.index)),
        is_own,
    }
}
