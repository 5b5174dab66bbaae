//! Bodies on their way, and the memory that they have together: those of requests as they arrive, and those of answers
//! until their clients have taken them.
//!
//! A body takes memory as it grows, and a converter only when it is whole: a slow sender does not delay the conversion
//! of others. Where the memory is short, the body that has been on its way longest is given up, if it has had its time
//! ([`PATIENT`]); a client that is not slow has sent or taken all in less.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::{Stream, stream};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::refusal::{ARRIVAL, ConversionRefusal, LARGEST, PATIENCE, PATIENT, QUEUE};

/// Poll interval of the memory in use.
const LOOK: Duration = Duration::from_millis(20);

/// Of an answer, as much is passed on at once: twice that much the connection holds of each answer that its client does
/// not take.
const PIECE: usize = 4 << 10;

/// The memory of all requests that arrive, wait or are converted, or that of all answers.
#[derive(Debug)]
pub struct BodyMemory {
    /// Bytes of all of it.
    most: usize,
    free: Arc<Semaphore>,
    on_the_way: Arc<Transfers>,
}

type Transfers = Mutex<BTreeMap<u64, Arc<Transfer>>>;

/// A body on its way.
#[derive(Debug)]
struct Transfer {
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
    pub fn new(bytes: usize) -> Self {
        Self { most: bytes, free: Arc::new(Semaphore::new(bytes)), on_the_way: Arc::default() }
    }

    /// The body, if it is no larger than [`LARGEST`]; of a larger one nothing is kept.
    ///
    /// # Errors
    /// Too large, too slow, cut off, or others have all of the memory.
    pub async fn read(&self, body: Body) -> Result<RequestBody, ConversionRefusal> {
        let arrival = Arc::new(Transfer::of(0));
        let _listed = TransferEntry::new(&self.on_the_way, Arc::clone(&arrival));
        tokio::select! {
            read = timeout(ARRIVAL, self.collect(body, &arrival)) => read.unwrap_or(Err(ConversionRefusal::SlowBody)),
            () = arrival.given_up.cancelled() => Err(ConversionRefusal::SlowBody),
        }
    }

    /// The body of this answer. It breaks off where its client has not taken it within [`ARRIVAL`], or within
    /// [`PATIENT`] where others need its memory.
    ///
    /// # Errors
    /// It is larger than all of the memory, or others have that.
    pub async fn send(&self, answer: Vec<u8>) -> Result<Body, ConversionRefusal> {
        // The answers behind it would wait with it, for memory that never becomes free.
        if answer.len() > self.most {
            return Err(ConversionRefusal::LongAnswer { most: self.most });
        }
        let held = self.take(answer.len()).await?;
        let sending = Arc::new(Transfer::of(answer.len()));
        let listed = TransferEntry::new(&self.on_the_way, Arc::clone(&sending));
        let rest: Unsent = Arc::new(Mutex::new(Some((Bytes::from(answer), held))));
        let done = CancellationToken::new();
        let (body, guard) = (Arc::clone(&rest), done.clone().drop_guard());
        // The body itself is asked for nothing more where its client takes nothing.
        tokio::spawn(async move {
            let _listed = listed;
            tokio::select! {
                () = done.cancelled() => {}
                () = sending.given_up.cancelled() => {}
                () = sleep(ARRIVAL) => {}
            }
            drop(rest.lock().take());
        });
        Ok(Body::from_stream(pieces(body, guard)))
    }

    async fn collect(&self, mut body: Body, arrival: &Transfer) -> Result<RequestBody, ConversionRefusal> {
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
        let on_the_way = self.on_the_way.lock();
        let state = |(key, one): (&u64, &Arc<Transfer>)| (*key, one.since, one.bytes.load(Ordering::Relaxed));
        for key in too_slow(&on_the_way.iter().map(state).collect::<Vec<_>>(), needed, Instant::now()) {
            if let Some(transfer) = on_the_way.get(&key) {
                transfer.given_up.cancel();
            }
        }
    }
}

/// What is left of an answer, and its memory; `None` once it is given up.
type Unsent = Arc<Mutex<Option<(Bytes, OwnedSemaphorePermit)>>>;

/// What is left of an answer, piece by piece. `guard` is dropped with the last one, or with the connection.
fn pieces(rest: Unsent, guard: DropGuard) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::try_unfold((rest, guard), async |(rest, guard)| {
        // A copy: what is in the hands of the connection would keep the whole answer in memory.
        let piece = |left: &mut Bytes| Bytes::copy_from_slice(&left.split_to(left.len().min(PIECE)));
        let piece = rest.lock().as_mut().map(|(left, _)| piece(left));
        match piece {
            Some(piece) if piece.is_empty() => Ok(None),
            Some(piece) => Ok(Some((piece, (rest, guard)))),
            None => Err(io::Error::from(io::ErrorKind::TimedOut)),
        }
    })
}

impl Transfer {
    /// From now on, with so many bytes.
    fn of(bytes: usize) -> Self {
        Self { since: Instant::now(), bytes: AtomicUsize::new(bytes), given_up: CancellationToken::new() }
    }
}

impl RequestBody {
    fn add(&mut self, data: &[u8], more: OwnedSemaphorePermit, arrival: &Transfer) {
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
fn too_slow(on_the_way: &[(u64, Instant, usize)], needed: usize, now: Instant) -> Vec<u64> {
    let had_their_time = |since: Instant| now.saturating_duration_since(since) >= PATIENT;
    let mut slow: Vec<_> =
        on_the_way.iter().filter(|(_, since, size)| had_their_time(*since) && *size > 0).collect();
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

/// An entry of [`BodyMemory::on_the_way`], for as long as its body is.
struct TransferEntry(Arc<Transfers>, u64);

impl TransferEntry {
    fn new(all: &Arc<Transfers>, transfer: Arc<Transfer>) -> Self {
        let mut on_the_way = all.lock();
        let key = on_the_way.last_key_value().map_or(0, |(key, _)| key.wrapping_add(1));
        on_the_way.insert(key, transfer);
        Self(Arc::clone(all), key)
    }
}

impl Drop for TransferEntry {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::response::IntoResponse as _;
    use futures::StreamExt as _;

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

    #[tokio::test(start_paused = true)]
    async fn answers_that_fill_the_memory_untaken_give_way_to_one_that_is_taken() {
        let memory = BodyMemory::new(4 * LARGEST);
        let mut untaken = Vec::new();
        for _ in 0..4 {
            let mut answer = memory.send(vec![b' '; LARGEST]).await.unwrap();
            // Its client takes the beginning.
            let piece = answer.frame().await.unwrap().unwrap().into_data().unwrap();
            assert!(piece.is_unique(), "the piece keeps all of the answer");
            untaken.push(answer);
        }
        let begun = Instant::now();
        let taken = memory.send(vec![b' '; LARGEST]).await.unwrap();
        assert!(begun.elapsed() < 2 * PATIENT, "{:?}", begun.elapsed());
        assert_eq!(taken.collect().await.unwrap().to_bytes().len(), LARGEST);
        // Of those that wait no one asks for more, and none is dropped.
        sleep(ARRIVAL).await;
        assert_eq!(memory.free.available_permits(), 4 * LARGEST, "all of it is given back");
        for answer in untaken {
            answer.collect().await.unwrap_err();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_never_fits_is_refused_at_once() {
        let memory = BodyMemory::new(LARGEST);
        let begun = Instant::now();
        let refusal = memory.send(vec![b' '; LARGEST + 1]).await.unwrap_err();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(refusal.to_string().contains("larger than 8 MiB"), "{refusal}");
        assert_eq!(refusal.into_response().status().as_u16(), 413);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_whose_client_has_gone_gives_its_memory_back_at_once() {
        let memory = BodyMemory::new(LARGEST);
        let begun = Instant::now();
        drop(memory.send(vec![b' '; LARGEST]).await.unwrap());
        let next = memory.send(vec![b' '; LARGEST]).await.unwrap();
        assert!(begun.elapsed() < PATIENT, "{:?}", begun.elapsed());
        assert_eq!(next.collect().await.unwrap().to_bytes().len(), LARGEST);
    }
}
