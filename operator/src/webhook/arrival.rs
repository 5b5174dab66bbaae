//! Bodies as they arrive, and the memory that they have together.
//!
//! A body takes memory as it grows, and a converter only when it is whole: a slow sender does not delay the conversion
//! of others. Where the memory is short, the body that has been arriving longest is given up, if it has had its time
//! ([`PATIENT`]); a client that is not slow has sent all in less.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::refusal::{ARRIVAL, ConversionRefusal, LARGEST, PATIENCE, PATIENT, QUEUE};

/// Poll interval of the memory in use.
const LOOK: Duration = Duration::from_millis(20);

/// The memory of all bodies that arrive, wait or are converted.
#[derive(Debug)]
pub struct BodyMemory {
    free: Arc<Semaphore>,
    arriving: Mutex<BTreeMap<u64, Arc<Arrival>>>,
}

#[derive(Debug)]
struct Arrival {
    since: Instant,
    bytes: AtomicUsize,
    given_up: CancellationToken,
}

/// A body that has arrived, and its memory.
#[derive(Debug)]
pub struct RequestBody {
    pub bytes: Vec<u8>,
    held: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// Of so many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)), arriving: Mutex::default() }
    }

    /// The body, if it is no larger than [`LARGEST`]; of a larger one nothing is kept.
    ///
    /// # Errors
    /// Too large, too slow, cut off, or others have all of the memory.
    pub async fn read(&self, body: Body) -> Result<RequestBody, ConversionRefusal> {
        let arrival = Arc::new(Arrival {
            since: Instant::now(),
            bytes: AtomicUsize::new(0),
            given_up: CancellationToken::new(),
        });
        let _listed = ArrivalEntry::new(self, Arc::clone(&arrival));
        tokio::select! {
            read = timeout(ARRIVAL, self.collect(body, &arrival)) => read.unwrap_or(Err(ConversionRefusal::SlowBody)),
            () = arrival.given_up.cancelled() => Err(ConversionRefusal::SlowBody),
        }
    }

    async fn collect(&self, mut body: Body, arrival: &Arrival) -> Result<RequestBody, ConversionRefusal> {
        let mut kept = Ok(RequestBody { bytes: Vec::new(), held: None });
        let mut size = 0_usize;
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| ConversionRefusal::CutOff)?.into_data() else { continue };
            size = size.saturating_add(data.len());
            if size > LARGEST {
                kept = Err(ConversionRefusal::TooLarge);
            }
            // What is refused is read on and forgotten, so that the client reads our answer.
            if let Ok(content) = &mut kept {
                match self.take(data.len()).await {
                    Ok(more) => content.add(&data, more, arrival),
                    Err(refusal) => kept = Err(refusal),
                }
            }
            if kept.is_err() {
                arrival.bytes.store(0, Ordering::Relaxed);
            }
            if size > PATIENCE {
                break;
            }
        }
        kept
    }

    /// Memory for so many bytes more.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, ConversionRefusal> {
        let count = u32::try_from(bytes).map_err(|_| ConversionRefusal::TooLarge)?;
        let mut taken = std::pin::pin!(timeout(QUEUE, Arc::clone(&self.free).acquire_many_owned(count)));
        loop {
            tokio::select! {
                biased;
                taken = &mut taken => return taken.map_err(|_| ConversionRefusal::Busy)?.map_err(|_| ConversionRefusal::Failed),
                () = sleep(LOOK) => self.give_up_slow(bytes),
            }
        }
    }

    fn give_up_slow(&self, needed: usize) {
        let arriving = self.arriving.lock();
        let state = |(key, one): (&u64, &Arc<Arrival>)| (*key, one.since, one.bytes.load(Ordering::Relaxed));
        for key in too_slow(&arriving.iter().map(state).collect::<Vec<_>>(), needed, Instant::now()) {
            if let Some(arrival) = arriving.get(&key) {
                arrival.given_up.cancel();
            }
        }
    }
}

impl RequestBody {
    fn add(&mut self, data: &[u8], more: OwnedSemaphorePermit, arrival: &Arrival) {
        self.bytes.extend_from_slice(data);
        arrival.bytes.fetch_add(data.len(), Ordering::Relaxed);
        match &mut self.held {
            Some(held) => held.merge(more),
            held @ None => *held = Some(more),
        }
    }
}

/// Which bodies, given as key, begin and size so far, are given up where `needed` bytes are missing: those that began
/// first, until they have so many together; none that has not had [`PATIENT`].
fn too_slow(arriving: &[(u64, Instant, usize)], needed: usize, now: Instant) -> Vec<u64> {
    let had_their_time = |since: Instant| now.saturating_duration_since(since) >= PATIENT;
    let mut slow: Vec<_> =
        arriving.iter().filter(|(_, since, size)| had_their_time(*since) && *size > 0).collect();
    slow.sort_by_key(|(_, since, _)| *since);
    let mut freed = 0;
    slow.into_iter()
        .take_while(|(.., size)| {
            let goes = freed < needed;
            freed += size;
            goes
        })
        .map(|(key, ..)| *key)
        .collect()
}

/// An entry of [`BodyMemory::arriving`], for as long as its body arrives.
struct ArrivalEntry<'a>(&'a BodyMemory, u64);

impl<'a> ArrivalEntry<'a> {
    fn new(memory: &'a BodyMemory, arrival: Arc<Arrival>) -> Self {
        let mut arriving = memory.arriving.lock();
        let key = arriving.last_key_value().map_or(0, |(key, _)| key.wrapping_add(1));
        arriving.insert(key, arrival);
        Self(memory, key)
    }
}

impl Drop for ArrivalEntry<'_> {
    fn drop(&mut self) {
        self.0.arriving.lock().remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures::{StreamExt as _, stream};

    use super::*;

    /// `size` bytes, then silence.
    fn stalls_after(size: usize) -> Body {
        let bytes = Ok::<_, Infallible>(Bytes::from(vec![b' '; size]));
        Body::from_stream(stream::once(async { bytes }).chain(stream::pending()))
    }

    #[test]
    fn those_that_began_first_go_until_there_is_enough_and_none_that_has_not_had_its_time() {
        let now = Instant::now() + Duration::from_hours(1);
        let ago = |millis| now.checked_sub(Duration::from_millis(millis)).unwrap();
        let arriving = [
            (0, ago(5_000), 10),
            (1, ago(9_000), 10),
            (2, ago(999), 99),
            (3, ago(1_000), 5),
            (4, ago(9_999), 0),
        ];
        for (needed, expected) in [
            (0, vec![]),
            (1, vec![1]),
            (10, vec![1]),
            (11, vec![1, 0]),
            (21, vec![1, 0, 3]),
            (99, vec![1, 0, 3]),
        ] {
            assert_eq!(too_slow(&arriving, needed, now), expected, "{needed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_that_fill_the_memory_give_way_to_one_that_is_not_slow() {
        let memory = Arc::new(BodyMemory::new(4 * LARGEST));
        let slow: Vec<_> = (0..4)
            .map(|_| {
                let memory = Arc::clone(&memory);
                tokio::spawn(async move {
                    memory.read(stalls_after(LARGEST)).await.map(|content| content.bytes.len())
                })
            })
            .collect();
        while memory.free.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let begun = Instant::now();
        let content = memory.read(Body::from(vec![b' '; LARGEST])).await.unwrap();
        assert_eq!(content.bytes.len(), LARGEST);
        assert!(begun.elapsed() < 2 * PATIENT, "{:?}", begun.elapsed());
        let mut ended = Vec::new();
        for one in slow {
            ended.push((one.await.unwrap().unwrap_err(), begun.elapsed() < 2 * PATIENT));
        }
        assert_eq!(
            ended.iter().filter(|(_, early)| *early).count(),
            1,
            "only as many as it takes: {ended:?}"
        );
        assert!(ended.iter().all(|(refusal, _)| *refusal == ConversionRefusal::SlowBody), "{ended:?}");
        drop(content);
        assert_eq!(memory.free.available_permits(), 4 * LARGEST, "all of it is given back");
    }

    #[tokio::test(start_paused = true)]
    async fn where_whole_bodies_have_all_of_the_memory_the_next_client_hears_so() {
        let memory = BodyMemory::new(LARGEST);
        let held = memory.read(Body::from(vec![b' '; LARGEST])).await.unwrap();
        let begun = Instant::now();
        assert_eq!(memory.read(Body::from("{}")).await.unwrap_err(), ConversionRefusal::Busy);
        assert_eq!(begun.elapsed().as_secs(), QUEUE.as_secs());
        drop(held);
        assert_eq!(memory.read(Body::from("{}")).await.unwrap().bytes, b"{}");
    }
}
