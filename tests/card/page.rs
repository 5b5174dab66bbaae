//! The card's page, asked for from outside of the machine.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Request;
use weaver_image::boot::machine::Machine;
use weaver_image::booted::{API_NAME, machine};

use crate::laptop;
use crate::node::is_active;
use crate::poll::until;

const PORT: u16 = 9480;
const SERVICE: &str = "weaver-page.service";

/// The whole answer to a request, and the time until its first byte.
fn ask(port: u16, request: &str) -> anyhow::Result<(String, Duration)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    let begun = Instant::now();
    stream.write_all(request.as_bytes())?;
    let mut answer = vec![0];
    stream.read_exact(&mut answer).context("closed without an answer")?;
    let first = begun.elapsed();
    stream.read_to_end(&mut answer)?;
    Ok((String::from_utf8_lossy(&answer).into_owned(), first))
}

fn get(port: u16, path: &str) -> anyhow::Result<(String, Duration)> {
    ask(port, &format!("GET {path} HTTP/1.1\r\nhost: raspi.local:9480\r\nconnection: close\r\n\r\n"))
}

/// The shortest of ten times until a laptop has the API server's answer to `/livez`, on one connection.
fn livez(machine: &Machine) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = laptop::client(machine).await;
        let mut shortest = Duration::MAX;
        for _ in 0..10 {
            let request = Request::get("/livez").body(Vec::new()).unwrap();
            let begun = Instant::now();
            client.request_text(request).await.unwrap();
            shortest = shortest.min(begun.elapsed());
        }
        shortest
    })
}

fn shown(machine: &Machine, property: &str) -> String {
    machine.run(&format!("systemctl show --value -p {property} {SERVICE}")).unwrap().trim().to_owned()
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn who_looks_from_outside_sees_the_node_and_without_one_no_memory_is_taken() {
    let mut machine = machine().unwrap();
    assert_eq!(shown(&machine, "ActiveState"), "inactive", "no one has looked");
    let port = machine.forward(PORT).unwrap();
    let page = until("the page of a node that is fine", || {
        let (page, _) = get(port, "/")?;
        Ok(if page.contains("fine: every configured name is proven") { Ok(page) } else { Err(page) })
    });
    for part in
        ["HTTP/1.1 200", "<h1>raspi</h1>", &format!("weaver-admin@{API_NAME}<"), "data-seconds=\"30\""]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(get(port, "/style.css").unwrap().0.contains("prefers-color-scheme: dark"));
    for request in ["POST / HTTP/1.0\r\n\r\n", "GET /../run/weaver/operator.token HTTP/1.0\r\n\r\n"] {
        let (answer, _) = ask(port, request).unwrap();
        assert!(answer.starts_with("HTTP/1.0 40"), "{request}: {answer}");
    }

    let first = (0..10).map(|_| get(port, "/").unwrap().1).min().unwrap();
    let pid = shown(&machine, "MainPID");
    // What it takes besides the program's own pages, which are in memory for the node agent: it is the same file.
    let own = machine.run(&format!("grep RssAnon: /proc/{pid}/status")).unwrap();
    let own: u32 = own.split_whitespace().nth(1).unwrap().parse().unwrap();
    let floor = livez(&machine);
    println!(
        "the first byte of the page: {first:?}; the answer to /livez: {floor:?}; memory while it is shown: {own} KiB"
    );
    // Pods of a real k3s keep an emulated card busy, and then the shortest answer of the API server takes longer.
    let budget = Duration::from_millis(50).max(3 * floor);
    assert!(first < budget, "{first:?}");
    assert!(own < 10 << 10, "{own} KiB");

    // Its own user, and root in its namespace, see nothing of ours but the page.
    let user = machine.run(&format!("stat -c %u /proc/{pid}")).unwrap();
    let others = machine.run("id -u root; id -u weaver; id -u weaver-webhook").unwrap();
    assert!(!others.lines().any(|other| other == user.trim()), "{user}");
    for path in ["/run/weaver/report.json", "/etc/rancher/k3s/k3s.yaml", "/boot/firmware/weaver.toml"] {
        machine.run(&format!("head -c 1 {path} > /dev/null")).unwrap();
        let looked = format!("nsenter --mount --target {pid} -- head -c 1 {path} > /dev/null");
        let looked = machine.attempt(&looked, Duration::from_mins(1)).unwrap();
        assert_ne!(looked.code, 0, "{path} is in its sight");
    }

    until("the end of the page when no one looks", || {
        let state = shown(&machine, "ActiveState");
        Ok(if state == "inactive" { Ok(()) } else { Err(state) })
    });
    assert_eq!(shown(&machine, "Result"), "success");
    assert!(get(port, "/").unwrap().0.contains("<h1>raspi</h1>"), "and it comes back");

    // What an agent said is not shown when it is no longer there.
    machine.run("systemctl stop weaver-node-agent").unwrap();
    assert!(get(port, "/").unwrap().0.contains("No check has finished"));
    machine.run("systemctl start weaver-node-agent").unwrap();
    until("the page of the next agent", || {
        let (page, _) = get(port, "/")?;
        Ok(if page.contains("<h1>raspi</h1>") { Ok(()) } else { Err(page) })
    });
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn a_card_that_shows_no_page_closes_its_port() {
    let mut machine = machine().unwrap();
    let port = machine.forward(PORT).unwrap();
    machine.run("touch /etc/weaver/page-off && systemctl restart weaver-page.socket").unwrap();
    assert!(!is_active(&machine, "weaver-page.socket").unwrap());
    assert!(get(port, "/").is_err(), "QEMU takes the connection, and no one in there does");
    // What boot-config writes for `listen`.
    let narrow = "rm /etc/weaver/page-off && echo WEAVER_PAGE_LISTEN=127.0.0.1 > /etc/weaver/page.env && \
                  systemctl restart weaver-page.socket";
    machine.run(narrow).unwrap();
    assert!(get(port, "/").is_err(), "only the card itself may look");
    let inside = "exec 3<>/dev/tcp/127.0.0.1/9480; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3";
    let inside = machine.run(&format!("bash -c \"{inside}\"")).unwrap();
    assert!(inside.contains("<h1>raspi</h1>"), "{inside}");
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn the_card_announces_itself_and_is_found() {
    let machine = machine().unwrap();
    // QEMU's network for users passes no multicast: the card is looked for on the card, through avahi's own answers.
    let find = "weaver find -o json --timeout 5 2>/dev/null || true";
    let found = until("the card among the cards that are found", || {
        let found = machine.run(find)?;
        Ok(if found.contains("\"state\": \"ok\"") { Ok(found) } else { Err(found) })
    });
    let ca = machine.run("sha256sum < /var/lib/rancher/k3s/server/tls/server-ca.crt").unwrap();
    let ca = ca.split_whitespace().next().unwrap();
    for part in ["\"name\": \"raspi\"", "\"port\": 9480", &format!("\"ca\": \"{ca}\""), API_NAME] {
        assert!(found.contains(part), "{part}: {found}");
    }
    let log = machine.run("journalctl -b -u avahi-daemon --no-pager").unwrap();
    assert!(log.contains("/services/weaver.service) successfully established"), "{log}");

    // What boot-config writes for `announce = false`, and the agent's next start.
    let off = "echo WEAVER_ANNOUNCE=no >> /etc/weaver/node-agent.env && systemctl restart weaver-node-agent";
    machine.run(off).unwrap();
    until("the end of the announcement", || {
        let there =
            machine.run("ls /etc/avahi/services; weaver find --timeout 2 -o json 2>/dev/null || true")?;
        Ok(if there.contains("\"cards\": []") && !there.contains("weaver.service") {
            Ok(())
        } else {
            Err(there)
        })
    });
}
