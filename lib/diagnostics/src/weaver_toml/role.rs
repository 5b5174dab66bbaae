//! `[k3s] role`: whether the card is a server or joins one, and which other settings contradict it.
//!
//! An agent serves no API. A setting that is only for a server is refused with its position: if ignored, it would look
//! as if it were in effect.

use std::net::IpAddr;
use std::ops::Range;

use super::{
    RoleSetting, SecretSetting,
    fault::{Faults, Mistake, shown},
    join_token::{self, Form},
    names,
    section::Section,
};

const WHERE_TOKEN: &str = "write what `sudo cat /var/lib/rancher/k3s/server/node-token` shows on the server";
const EXAMPLE: &str = "write it like \"https://raspi.lan:6443\"";

/// Other settings of the file that may contradict a role.
pub(super) struct RoleContext<'a, 't> {
    pub hostname: Option<&'a str>,
    pub api: &'a Section<'t>,
    pub api_names: &'a [String],
    pub token: &'a SecretSetting,
    pub token_at: Option<&'a Range<usize>>,
}

pub(super) fn read(
    k3s: &Section<'_>,
    surroundings: &RoleContext<'_, '_>,
    faults: &mut Faults<'_>,
) -> RoleSetting {
    let server = k3s.text("server", faults);
    let role = k3s.text("role", faults);
    match role.as_ref().map(|role| role.value) {
        Some("agent") => {}
        None if k3s.place_of("role").is_some() => return RoleSetting::Server,
        None | Some("server") => {
            if let Some(place) = k3s.place_of("server") {
                let remedy = "write role = \"agent\" to join that server, or remove the line";
                faults.add_at(Some(&place), "`server` is for a card that joins one", remedy);
            }
            return RoleSetting::Server;
        }
        Some(other) => {
            let span = role.as_ref().and_then(|role| role.span.clone());
            let message = format!("the role {} is unknown", shown(other));
            faults.add_at(span.as_ref(), message, "write \"server\" or \"agent\"");
            return RoleSetting::Server;
        }
    }
    let place = k3s.place_of("role");
    goes_with(k3s, surroundings, place.as_ref(), faults);
    let Some(server) = server else {
        if k3s.place_of("server").is_none() {
            let remedy = "add a line below it such as server = \"https://raspi.lan:6443\"";
            faults.add_at(place.as_ref(), "an agent joins a server, and no `server` is named", remedy);
        }
        return RoleSetting::Server;
    };
    let judged = server_url(server.value, surroundings.hostname);
    faults.take(server.span.as_ref(), judged).map_or(RoleSetting::Server, RoleSetting::Agent)
}

/// Refuses what an agent has no use for, and a token that it has none with.
fn goes_with(
    k3s: &Section<'_>,
    surroundings: &RoleContext<'_, '_>,
    role: Option<&Range<usize>>,
    faults: &mut Faults<'_>,
) {
    if !surroundings.api_names.is_empty() {
        let remedy = "remove `names`, or write them into the weaver.toml of the server";
        faults.add_at(
            surroundings.api.place_of("names").as_ref(),
            "`names` is for a server, an agent serves no API",
            remedy,
        );
    }
    match surroundings.token {
        SecretSetting::None if k3s.place_of("token").is_none() => {
            faults.add_at(
                role,
                "an agent joins with the server's token, and no `token` is there",
                WHERE_TOKEN,
            );
        }
        SecretSetting::Import(token) => {
            if let Form::Broken(why) = join_token::form(token.expose()) {
                faults.add_at(
                    surroundings.token_at,
                    format!("`token` {why}, and k3s refuses it"),
                    WHERE_TOKEN,
                );
            }
        }
        SecretSetting::None | SecretSetting::Keep => {}
    }
}

/// `https://HOST:PORT` in lower case, of another host than this.
fn server_url(text: &str, hostname: Option<&str>) -> Result<String, Mistake> {
    // Not shown: it may be a password.
    if text.contains('@') {
        return Err(Mistake::new("`server` has a user or a password in it", EXAMPLE));
    }
    let wrong =
        |why: &str, remedy: String| Err(Mistake::new(format!("the server {} {why}", shown(text)), remedy));
    let Some(rest) = text.strip_prefix("https://") else {
        return wrong("does not begin with https://", EXAMPLE.to_owned());
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#']) {
        return wrong("has text after its port", EXAMPLE.to_owned());
    }
    let (host, port) = match rest.strip_prefix('[').and_then(|six| six.split_once(']')) {
        Some((host, behind)) => (host, behind.strip_prefix(':')),
        None if rest.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6()) => {
            return wrong("has no port", format!("write \"https://[{rest}]:6443\""));
        }
        None => rest.rsplit_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
    };
    let name = names::api_name(host).map_err(|mistake| Mistake::new(mistake.message, EXAMPLE))?;
    let address: Option<IpAddr> = name.parse().ok();
    let host =
        if address.is_some_and(|address| address.is_ipv6()) { format!("[{name}]") } else { name.clone() };
    let Some(port) = port else {
        return wrong("has no port", format!("write \"https://{host}:6443\""));
    };
    let is_digits = port.bytes().all(|digit| digit.is_ascii_digit());
    let Some(port) = port.parse::<u16>().ok().filter(|port| *port != 0 && is_digits) else {
        return wrong("has no port from 1 to 65535", format!("write \"https://{host}:6443\""));
    };
    let is_own = hostname.is_some_and(|own| name == own || name.strip_suffix(".local") == Some(own));
    if is_own || name == "localhost" || address.is_some_and(|address| address.is_loopback()) {
        let remedy = "name the server; two nodes of one cluster have different names";
        return wrong("is this card itself", remedy.to_owned());
    }
    Ok(format!("https://{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers() {
        for (text, want) in [
            ("https://raspi.lan:6443", "https://raspi.lan:6443"),
            ("https://Raspi.LAN:6443/", "https://raspi.lan:6443"),
            ("https://192.168.1.20:443", "https://192.168.1.20:443"),
            ("https://[FD00::1]:6443", "https://[fd00::1]:6443"),
            ("https://worker.lan:6443", "https://worker.lan:6443"),
        ] {
            assert_eq!(server_url(text, Some("worker")).unwrap(), want);
        }
        for (text, why, remedy) in [
            ("raspi.lan:6443", "does not begin with https://", "\"https://raspi.lan:6443\""),
            ("http://raspi.lan:6443", "does not begin with https://", "\"https://raspi.lan:6443\""),
            ("", "does not begin with https://", "write it like"),
            ("https://", "empty", "write it like"),
            ("https://raspi.lan", "has no port", "write \"https://raspi.lan:6443\""),
            ("https://fd00::1", "has no port", "write \"https://[fd00::1]:6443\""),
            ("https://[fd00::1]", "has no port", "write \"https://[fd00::1]:6443\""),
            ("https://raspi.lan:0", "from 1 to 65535", "write \"https://raspi.lan:6443\""),
            ("https://raspi.lan:65536", "from 1 to 65535", "write \"https://raspi.lan:6443\""),
            ("https://raspi.lan:+443", "from 1 to 65535", "write \"https://raspi.lan:6443\""),
            ("https://raspi.lan:6443/v1", "after its port", "write it like"),
            ("https://ras pi:6443", "white space", "write it like"),
            ("https://0.0.0.0:6443", "not the address of a host", "write it like"),
            ("https://worker:6443", "is this card itself", "different names"),
            ("https://worker.local:6443", "is this card itself", "different names"),
            ("https://localhost:6443", "is this card itself", "name the server"),
            ("https://127.0.0.1:6443", "is this card itself", "name the server"),
            ("https://[::1]:6443", "is this card itself", "name the server"),
        ] {
            let mistake = server_url(text, Some("worker")).unwrap_err();
            assert!(mistake.message.contains(why), "{text}: {mistake:?}");
            assert!(mistake.remedy.contains(remedy), "{text}: {mistake:?}");
        }
        let mistake = server_url("https://me:hunter2@raspi.lan:6443", None).unwrap_err();
        assert!(!format!("{mistake:?}").contains("hunter2"), "{mistake:?}");
    }
}
