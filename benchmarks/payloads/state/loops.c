/* What each payload beside this file computes, as plain loops: outputs, second buffers, inputs, sizes. */
#include <stdint.h>
#include <string.h>
typedef float F;
typedef long L;
void ew2d(F*restrict y,const F*restrict u,const F*restrict v,L H,L W,L T){memcpy(y,u,4*H*W);for(L t=0;t<T;t++)for(L i=0;i<H*W;i++)y[i]=y[i]*0.5f+v[i];}
void two_states(F*restrict y,F*restrict z,const F*u,const F*v,L H,L W,L T){memcpy(y,u,4*H*W);memcpy(z,v,4*H*W);for(L t=0;t<T;t++)for(L i=0;i<H*W;i++){F p=y[i],q=z[i];y[i]=p+0.01f*q;z[i]=q-0.01f*p;}}
void heat2d(F*restrict y,F*restrict n,const F*u,L H,L W,L T){memcpy(y,u,4*H*W);memcpy(n,u,4*H*W);for(L t=0;t<T;t++){for(L i=1;i<H-1;i++)for(L j=1;j<W-1;j++){F c=y[i*W+j];n[i*W+j]=c+0.1f*(y[(i-1)*W+j]+y[(i+1)*W+j]+y[i*W+j-1]+y[i*W+j+1]-4*c);}F*s=y;y=n;n=s;}}
void red_black(F*restrict y,const F*x,L N,L T){memcpy(y,x,4*(2*N+2));for(L t=0;t<T;t++){for(L i=0;i<N;i++)y[2*i+1]=0.5f*(y[2*i]+y[2*i+2]);for(L i=0;i<N;i++)y[2*i+2]=0.5f*(y[2*i+1]+y[2*i+3]);}}
void strided2d(F*restrict y,const F*x,L H,L W,L T){memcpy(y,x,16*H*W);for(L t=0;t<T;t++)for(L i=0;i<H;i++)for(L j=0;j<2*W;j++)y[(2*i+1)*2*W+j]=0.5f*(y[(2*i)*2*W+j]+y[(2*i+1)*2*W+j]);}
void heat3d(F*restrict y,F*restrict n,const F*u,L A,L H,L W,L T){memcpy(y,u,4*A*H*W);memcpy(n,u,4*A*H*W);for(L t=0;t<T;t++){for(L a=1;a<A-1;a++)for(L i=1;i<H-1;i++)for(L j=1;j<W-1;j++){F*q=y+(a*H+i)*W+j;F c=*q;n[(a*H+i)*W+j]=c+0.1f*(q[-H*W]+q[H*W]+q[-1]+q[1]-4*c);}F*s=y;y=n;n=s;}}
void row_drop(F*restrict y,const F*u,L H,L W){memcpy(y,u,4*H*W);for(L i=1;i<H;i++)for(L j=0;j<W;j++)y[i*W+j]+=0.5f*y[(i-1)*W+j];}
void concat_state(F*restrict y,F*restrict n,const F*u,L N,L T){memcpy(y,u,4*N);memcpy(n,u,4*N);for(L t=0;t<T;t++){for(L i=1;i<N-1;i++)n[i]=0.5f*(y[i-1]+y[i+1]);F*s=y;y=n;n=s;}}
void dp_table(F*restrict y,const F*w,const F*c,L N,L M){memset(y,0,4*M);for(L i=0;i<N;i++)for(L j=0;j<M;j++){F a=y[i*M+j],b=c[i*M+j];y[(i+1)*M+j]=(a>b?a:b)+w[i];}}
void dp_full(F*restrict y,const F*c,L N,L M){memcpy(y,c,4*N*M);for(L i=1;i<N;i++)for(L j=1;j<M;j++){F a=y[(i-1)*M+j],b=y[i*M+j-1];y[i*M+j]+=a<b?a:b;}}
void row_elsewhere(F*restrict y,const F*c,L N,L M){memcpy(y,c,4*N*M);for(L i=1;i<N;i++)for(L j=0;j<M;j++)y[i*M+j]-=0.5f*y[j];}
void gauss(F*restrict y,const F*c,L N){memcpy(y,c,4*N*N);for(L k=0;k<N;k++)for(L i=k+1;i<N;i++){F r=y[i*N+k]/y[k*N+k];for(L j=k;j<N;j++)y[i*N+j]-=r*y[k*N+j];}}
void trisolve(F*restrict y,const F*l,const F*b,L N){for(L i=0;i<N;i++){F s=0;for(L j=0;j<i;j++)s+=l[i*N+j]*y[j];y[i]=(b[i]-s)/l[i*N+i];}}
void select_seq(F*restrict y,const F*x,L N){memcpy(y,x,4*N);for(L i=1;i<N;i++){F q=y[i];y[i]=q>0.5f?q:y[i-1]+q;}}
void lcg(uint32_t*restrict y,const uint32_t*x,L N){uint32_t d=0;for(L i=0;i<N;i++){uint32_t s=d^x[i];d=(s&1)?(s>>1)^3988292384u:(s>>1);}*y=d;}
void ew2d_time(F*restrict y,const F*restrict u,const F*restrict v,L H,L W,L T){memcpy(y,u,4*H*W);for(L t=0;t<T;t++)for(L i=0;i<H*W;i++)y[i]=y[i]*0.5f+v[t*H*W+i];}
void ew2d_reduce(F*restrict y,const F*restrict u,const F*restrict v,L H,L W,L T){memcpy(y,u,4*H*W);for(L t=0;t<T;t++){F m=-1e30;for(L i=0;i<H*W;i++){F a=y[i]*0.5f+v[i];y[i]=a;m=a>m?a:m;}for(L i=0;i<H*W;i++)y[i]-=m;}}
void ew2d_history(F*restrict y,const F*restrict u,L H,L W,L T){memcpy(y,u,4*H*W);for(L t=0;t<T;t++)for(L i=0;i<H*W;i++)y[(t+1)*H*W+i]=y[t*H*W+i]*0.5f+0.25f;}
void ew2d_slots(F*restrict y,const F*restrict u,L H,L W,L T){memcpy(y,u,8*H*W);for(L t=0;t<T;t++)for(L i=0;i<H*W;i++)y[(t%2)*H*W+i]=y[((t+1)%2)*H*W+i]*0.5f+0.25f;}
void dp_row_scan(F*restrict y,const F*c,L N,L M){memcpy(y,c,4*N*M);for(L i=1;i<N;i++){F s=0;for(L j=0;j<M;j++){s+=y[(i-1)*M+j]+y[i*M+j];y[i*M+j]=0.001f*s;}}}
void row_inner(F*restrict y,const F*c,L N,L M){memcpy(y,c,4*N*M);for(L i=1;i<N;i++)for(L j=1;j<M;j++){F a=y[(i-1)*M+j],b=y[i*M+j-1];y[i*M+j]+=a<b?a:b;}}
void knapsack(F*restrict y,const F*v,const F*z,L N,L M){memcpy(y,z,4*M);for(L i=0;i<N;i++)for(L j=M-1;j>=5;j--){F w=y[j-5]+v[i];y[j]=y[j]>w?y[j]:w;}}
void wave(F*restrict u,F*restrict v,const F*a,const F*b,L N,L T){memcpy(u,a,4*N);memcpy(v,b,4*N);for(L t=0;t<T;t++){for(L i=1;i<N-1;i++)v[i]+=0.1f*(u[i-1]+u[i+1]-2*u[i]);for(L i=1;i<N-1;i++)u[i]+=0.1f*v[i];}}
void butterfly(F*restrict y,const F*x,L N,L T){memcpy(y,x,8*N);for(L t=0;t<T;t++)for(L i=0;i<N;i++){F a=y[i],b=y[N+i];y[i]=a+b;y[N+i]=a-b;}}
void fib_swap(F*restrict p,F*restrict c,const F*a,const F*b,L N,L T){memcpy(p,a,4*N);memcpy(c,b,4*N);for(L t=0;t<T;t++)for(L i=0;i<N;i++){F s=0.5f*(p[i]+c[i]);p[i]=c[i];c[i]=s;}}
void hist(int32_t*restrict y,const double*x,L N){memset(y,0,256);for(L i=0;i<N;i++){int k=(int)(x[i]*64.0);k=k>63?63:k<0?0:k;y[k]++;}}
void select64(double*restrict y,const double*x,L N){memcpy(y,x,8*N);for(L i=1;i<N;i++){double q=y[i];y[i]=q>0.5?q:y[i-1]+q;}}
void select_rec(F*restrict y,const F*x,L N){F d=0;for(L i=0;i<N;i++){F q=x[i];d=q>0.5f?d*0.5f:d+q;}*y=d;}
void heat1d(F*restrict y,F*restrict n,const F*u,L N,L T){memcpy(y,u,4*N);memcpy(n,u,4*N);for(L t=0;t<T;t++){for(L i=1;i<N-1;i++)n[i]=y[i]+0.1f*(y[i-1]+y[i+1]-2*y[i]);F*s=y;y=n;n=s;}}
void three_states(F*restrict p,F*restrict q,F*restrict r,const F*a,const F*b,const F*c,L N,L T){memcpy(p,a,4*N);memcpy(q,b,4*N);memcpy(r,c,4*N);for(L t=0;t<T;t++)for(L i=0;i<N;i++){F h=0.5f*(p[i]+r[i]);p[i]=q[i];q[i]=r[i];r[i]=h;}}
void running_max(F*restrict y,const F*x,L N){memcpy(y,x,4*N);for(L i=1;i<N;i++)y[i]=y[i-1]>y[i]?y[i-1]:y[i];}
void checksum(uint32_t*restrict a,uint32_t*restrict b,const uint32_t*x,L N){uint32_t s=0,r=0;for(L i=0;i<N;i++){s+=x[i];r+=s;}*a=s;*b=r;}
void turned(F*restrict y,F*restrict n,const F*u,L N,L T){memcpy(y,u,4*N);for(L t=0;t<T;t++){for(L i=0;i<N;i++)n[i]=0.5f*y[N-1-i];F*s=y;y=n;n=s;}}
