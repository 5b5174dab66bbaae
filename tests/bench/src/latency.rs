//! How long until a change is at its targets, and what it costs.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};

use crate::bed::{Bed, SMALL, padded};
use crate::figures::{Budget, Figure, count, median};
use crate::floor::{self, Floor};
use crate::observer::Observer;
use crate::operator::{MeasuredOperator, between, of, total};

/// Between two changes: the operator bounds how often the copies of one resource are written.
const REST: Duration = Duration::from_millis(600);
/// Changes of one object per round.
const CHANGES: usize = 4;

/// What is edited: a source of so many bytes, with so many copies.
#[derive(Clone, Copy)]
pub struct EditLoad {
    pub targets: usize,
    pub bytes: usize,
}

/// What an edit of a source costs.
pub struct Fan {
    load: EditLoad,
    /// Milliseconds until the first, the median and the last copy.
    pub arrivals: [Vec<f64>; 3],
    /// The bare client's last.
    pub floor: Vec<f64>,
    pub requests: Vec<f64>,
}

pub struct Latency<'a> {
    bed: &'a Bed,
    operator: &'a MeasuredOperator,
    observer: Observer,
    floor: Floor,
    rounds: usize,
}

impl<'a> Latency<'a> {
    pub async fn new(bed: &'a Bed, operator: &'a MeasuredOperator, rounds: usize) -> Result<Self> {
        let observer = Observer::start(&bed.world.client);
        Ok(Self { bed, operator, observer, floor: Floor::new(bed.as_tenant().await?), rounds })
    }
}

impl Latency<'_> {
    /// A source is edited.
    pub async fn edits(&mut self, load: EditLoad) -> Result<(Fan, Vec<Figure>)> {
        let EditLoad { targets, bytes } = load;
        let name = format!("edit-{targets}-{bytes}");
        let namespaces = self.bed.pool[..targets].to_vec();
        let keys: Vec<_> = namespaces.iter().map(|namespace| (namespace.clone(), name.clone())).collect();
        self.bed.sync_of(&name, &self.bed.first(targets), bytes).await;
        self.operator.settled(1).await?;
        self.floor.write(&namespaces, &content(&padded("first", bytes))).await?;

        let mut fan = Fan { load, arrivals: [vec![], vec![], vec![]], floor: vec![], requests: vec![] };
        let (mut cpu, mut reads) = (vec![], vec![]);
        // The first round warms up and is not counted.
        for round in 0..=self.rounds {
            let value = padded(&format!("round {round}"), bytes);
            // By turns: what the first left the API server to do delays the other.
            let floor_before =
                if round % 2 == 1 { Some(self.edit_by_floor(&namespaces, &value).await?) } else { None };

            let (before, cpu_before) = (self.operator.metrics().await, self.operator.cpu()?);
            self.observer.forget();
            let begun = Instant::now();
            self.bed.write_source(&name, &value).await;
            let arrived = self.observer.written(keys.clone(), 1).await?;
            let after = self.operator.quiet().await?;
            let took = self.operator.cpu()? - cpu_before;
            let floor = match floor_before {
                Some(floor) => floor,
                None => self.edit_by_floor(&namespaces, &value).await?,
            };
            if round == 0 {
                continue;
            }
            fan.floor.push(floor);
            let positions = [arrived.first(), arrived.get(arrived.len() / 2), arrived.last()];
            for (arrivals, at) in fan.arrivals.iter_mut().zip(positions) {
                arrivals.push(since(begun, at));
            }
            cpu.push(took);
            let asked = between(&before, &after);
            fan.requests.push(total(&asked));
            reads.push(of(&asked, &["get"]));
        }
        self.bed.delete(&[(self.bed.team.clone(), name)]).await;
        let figures = fan.figures(cpu, reads);
        Ok((fan, figures))
    }

    /// The bare client makes the same edit; how long until its last copy.
    async fn edit_by_floor(&mut self, namespaces: &[String], value: &str) -> Result<f64> {
        self.observer.forget();
        let begun = Instant::now();
        self.bed.write_source("floors-source", value).await;
        self.floor.write(namespaces, &content(value)).await?;
        let arrived = self.observer.written(Floor::keys(namespaces), 1).await?;
        let took = since(begun, arrived.last());
        sleep(REST).await;
        Ok(took)
    }

    /// A copy of one resource with `targets` copies is deleted, or changed by someone.
    pub async fn repairs(&mut self, targets: usize) -> Result<Vec<Figure>> {
        let name = format!("repair-{targets}");
        let namespaces = self.bed.pool[..targets].to_vec();
        self.bed.sync(&name, &json!({"namespaces": namespaces})).await;
        self.operator.settled(1).await?;
        self.floor.write(&namespaces, &content(&padded("first", SMALL))).await?;
        let client = self.bed.world.client.clone();
        let (mut deleted, mut deleted_floor, mut changed, mut changed_floor) =
            (vec![], vec![], vec![], vec![]);
        for change in 0..self.rounds * CHANGES {
            let namespace = &self.bed.pool[change % targets];
            let (copy, own) =
                ((namespace.clone(), name.clone()), (namespace.clone(), floor::NAME.to_owned()));
            let only = std::slice::from_ref(namespace);

            self.observer.forget();
            let begun = Instant::now();
            floor::delete(&client, &own).await?;
            self.floor.forget(namespace);
            self.floor.write(only, &content(&padded("first", SMALL))).await?;
            deleted_floor.push(since(begun, self.observer.written([own.clone()], 1).await?.last()));

            self.observer.forget();
            let begun = Instant::now();
            floor::delete(&client, &copy).await?;
            deleted.push(since(begun, self.observer.written([copy.clone()], 1).await?.last()));
            sleep(REST).await;

            let tamper = json!({"data": {"theirs": "tampered"}});
            self.observer.forget();
            let begun = Instant::now();
            let metadata = floor::patch(&client, &own, &tamper).await?;
            self.floor.saw(namespace, metadata);
            self.floor.write(only, &content(&padded("first", SMALL))).await?;
            changed_floor.push(since(begun, self.observer.written([own], 2).await?.last()));

            self.observer.forget();
            let begun = Instant::now();
            floor::patch(&client, &copy, &tamper).await?;
            changed.push(since(begun, self.observer.written([copy], 2).await?.last()));
            sleep(REST).await;
        }
        self.bed.delete(&[(self.bed.team.clone(), name)]).await;
        let figure = |what: &str, own, floor| {
            let what = format!("a copy of {targets} {what} → repaired");
            Figure::new(what, "ms", own).compared_to(floor).within(Budget::OverFloor(15.0))
        };
        Ok(vec![figure("is deleted", deleted, deleted_floor), figure("is changed", changed, changed_floor)])
    }

    /// A namespace is created that a selector selects.
    pub async fn namespaces(&mut self) -> Result<Figure> {
        let name = "select".to_owned();
        let label = "bench.example.com/selected";
        self.bed.sync(&name, &json!({"selector": {"matchLabels": {label: "true"}}})).await;
        self.operator.quiet().await?;
        let namespaces: Api<Namespace> = Api::all(self.bed.world.client.clone());
        let (mut own, mut floor, mut made) = (vec![], vec![], vec![]);
        for change in 0..self.rounds * CHANGES {
            for selected in [false, true] {
                let namespace = self.bed.world.name(&format!("new-{change}-{selected}"));
                let object: Namespace = serde_json::from_value(
                    json!({"metadata": {"name": namespace, "labels": {label: selected.to_string()}}}),
                )?;
                self.observer.forget();
                let begun = Instant::now();
                namespaces.create(&PostParams::default(), &object).await?;
                if selected {
                    own.push(since(
                        begun,
                        self.observer.written([(namespace.clone(), name.clone())], 1).await?.last(),
                    ));
                } else {
                    let only = [namespace.clone()];
                    self.floor.write(&only, &content(&padded("first", SMALL))).await?;
                    floor.push(since(begun, self.observer.written(Floor::keys(&only), 1).await?.last()));
                    self.floor.forget(&namespace);
                }
                made.push(namespace);
                sleep(REST).await;
            }
        }
        self.bed.delete(&[(self.bed.team.clone(), name)]).await;
        for namespace in made {
            namespaces.delete(&namespace, &DeleteParams::default()).await?;
        }
        let what = "a namespace is created → its copy";
        Ok(Figure::new(what, "ms", own).compared_to(floor).within(Budget::OverFloor(10.0)))
    }
}

impl Fan {
    fn figures(&self, cpu: Vec<f64>, reads: Vec<f64>) -> Vec<Figure> {
        let EditLoad { targets, bytes } = self.load;
        let [first, middle, last] = self.arrivals.clone();
        let size = if bytes > SMALL { format!(" of {bytes} bytes") } else { String::new() };
        let edit = format!("an edit → {targets} copies{size}");
        // How far a long fan-out is goes into the status every few seconds.
        let budget = self.copies() * 1.001 + 3.0;
        let last = Figure::new(format!("{edit}: the last"), "ms", last).compared_to(self.floor.clone());
        // Nothing was asked for of a single copy: what the operator must find out first is as much as the write.
        let last = if targets > 1 { last.within(Budget::TimesFloor(1.2)) } else { last };
        let mut figures = vec![
            last,
            Figure::new(format!("{edit}: requests"), "", self.requests.clone())
                .within(Budget::AtMost(budget.floor())),
            Figure::new(format!("{edit}: of them reads"), "", reads).within(Budget::AtMost(2.0)),
            Figure::new(format!("{edit}: processor time"), "ms", cpu),
        ];
        if targets > 1 {
            figures.insert(0, Figure::new(format!("{edit}: the median"), "ms", middle));
            figures.insert(0, Figure::new(format!("{edit}: the first"), "ms", first));
        }
        figures
    }

    /// What a plot shows of it: targets against the median.
    pub fn point(&self, values: &[f64]) -> (f64, f64) {
        (self.copies(), median(values))
    }

    fn copies(&self) -> f64 {
        count(u64::try_from(self.load.targets).unwrap_or(u64::MAX))
    }
}

/// What a source has, and its copies.
pub fn content(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("settings".to_owned(), value.to_owned())])
}

/// Milliseconds.
pub fn since(begun: Instant, at: Option<&Instant>) -> f64 {
    at.map_or(f64::NAN, |at| at.saturating_duration_since(begun).as_secs_f64() * 1_000.0)
}
